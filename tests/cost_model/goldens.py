"""Cases whose forecasts are pinned: arguments of `simulate`, and results of probes."""

import json
from pathlib import Path

import msgspec
from click.testing import CliRunner

from cost_model.measuring import JOB, MB, process, two
from unisono.check.page import json_of, page_of
from unisono.cli.simulate import simulate
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import Gradient, OneWay, Packing, ProbeResults

PLACE = Path(__file__).parent / "golden"
SIMULATED = {
    "usual": "",
    "two V100s a machine": "--gpus-per-node 2 --nodes 1,2,4,16 --price 2.5",
    "half precision": "--gpus-per-node 2 --precision fp16 --nodes 2",
    "fast link": "--link 100gbit --gpus-per-node 8 --gpu H100 --precision bf16 --nodes 2,64",
    "slow link": "--link 100mbit --latency 5ms --nodes 2,8 --steps 10000 --save-every 300",
    "fewer would do": "--tokens-per-update 4096 --nodes 4,8,64 --link 300mbit",
    "given rate": "--tflops 5 --model big --vocabulary 8000 --validate-every 0 --save-every 0",
}


def simulated(arguments: str) -> str:
    result = CliRunner().invoke(simulate, arguments.split(), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def probed() -> dict[str, ProbeResults]:
    """Return what probes found in each case of `check`."""
    packings = tuple(Packing(bits, 3e-9, 1e-9) for bits in (16, 8, 4))
    seen = (*(Gradient(4 * MB, (n + 1) / 10) for n in range(5)), Gradient(20 * MB, 1.0, True))
    work = {
        "evaluation_seconds": 90.0,
        "translation_seconds": 60.0,
        "checkpoint_seconds": 18.0,
        "checkpoint_bytes": 120 * MB,
        "loader_seconds": 0.1,
        "seconds": 35.0,
        "latency": 1e-3,
    }
    replace = msgspec.structs.replace
    places = [(f"node{r // 2}", r % 2) for r in range(6)]
    six = [process(r, host=h, local_rank=n) for r, (h, n) in enumerate(places)]
    job = replace(JOB, low_rank_numbers=MB, warmup_steps=100)
    apart = replace(job, strategy="diloco", bits=8, local_steps=4, closing_steps=50)
    slow, cpu = two(rate=10 * MB), two(device="cpu", busy=0.01, rate=50 * MB)
    results = {
        "ddp": replace(two(), job=job, **work),
        "one machine": ProbeResults(JOB, (process(0),), **work),
        "three machines": ProbeResults(replace(job, gradients=seen), tuple(six), **work),
        "auto on processors": replace(cpu, job=replace(job, strategy="auto"), **work),
        "auto, slow": replace(slow, job=replace(job, strategy="auto"), **work),
        "diloco": replace(slow, job=apart, **work),
        "powersgd": replace(slow, job=replace(job, strategy="powersgd"), **work),
        "compressed": replace(cpu, job=replace(job, strategy="compressed", bits=8), **work),
        "all_reduce": replace(two(), job=replace(job, strategy="all_reduce"), **work),
        "no end": replace(two(), job=replace(job, updates=0), pairs=(OneWay(0, 1, 12 * MB),)),
    }
    return {name: replace(one, packings=packings) for name, one in results.items()}


def numbers() -> dict[str, object]:
    """Return what programs read, of every case."""
    told = {f"simulate: {name}": simulated(f"{a} --json") for name, a in SIMULATED.items()}
    found = {name: forecast(one, price=2.0) for name, one in probed().items()}
    told |= {f"check: {name}": json_of(one) for name, one in found.items()}
    return {name: rounded(json.loads(text)) for name, text in told.items()}


def rounded(value: object) -> object:
    """Return `value` with ten digits of each number; notes are on the pages."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        left_out = ("measured", "inputs", "notes")
        return {key: rounded(one) for key, one in value.items() if key not in left_out}
    return value


def pages() -> str:
    """Return what a person reads, of every case."""
    told = {f"simulate {a}": simulated(a) for a in SIMULATED.values()}
    found = {name: forecast(one, price=2.0) for name, one in probed().items()}
    told |= {f"check: {name}": page_of(one) for name, one in found.items()}
    return "\n".join(f"## {name}\n{text.rstrip()}\n" for name, text in told.items())


def write() -> None:
    """Write the files anew: `PYTHONPATH=src:tests python -m cost_model.goldens`."""
    (PLACE / "numbers.json").write_text(json.dumps(numbers(), separators=(",", ":")) + "\n")
    (PLACE / "pages.txt").write_text(pages())


if __name__ == "__main__":
    write()
