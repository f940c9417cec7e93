"""Everything worth measuring in one rented hour with a GPU, the most valuable first.

    python benchmarks/gpu_hour.py [--output gpu-hour.json] [--corpus DIR] [--hosts a,b]
                                  [--minutes 60] [--only speed,compile] [--rehearse]

Results go to one file, after every measurement; the same command goes on with what is missing
or failed. Without `--corpus`, the built-in text is used, whose vocabulary is small. `--hosts`
names two machines on which this directory and the corpus are in the same place. `--rehearse`
does it all on a CPU with tiny sizes, to see that it works: its figures mean nothing.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from measure import machine, median
from saving import Training, measure

from unisono import __version__, atomic
from unisono.models.settings import PRESETS
from unisono.nvidia import read_driver
from unisono.records.view import read_run
from unisono.selftest.trial import make_trial

FORMAT = 1
PRECISIONS = {
    "auto": ("train.precision=auto",),
    "bf16": ("train.precision=bf16",),
    "fp16": ("train.precision=fp16",),
    "tf32": ("train.precision=fp32", "train.tf32=true"),
    "fp32": ("train.precision=fp32", "train.tf32=false"),
}
STRATEGIES = ("ddp", "compressed", "diloco", "powersgd")
TURNS = 3
NO_BREAKS = (
    "validation.every_steps=1000000",
    "validation.samples=0",
    "checkpoint.every_steps=1000000",
)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: its figures, or why it failed."""

    date: str
    seconds: float
    figures: dict[str, float] = {}
    error: str = ""


class GpuHour(msgspec.Struct, kw_only=True):
    """The file: where it was measured, and what."""

    format: int = FORMAT
    card: str
    driver: str
    torch: str = str(torch.__version__)
    unisono: str = __version__
    host: str = platform.node()
    rehearsal: bool = False
    measured: dict[str, Measurement] = {}


@dataclass(frozen=True)
class Setup:
    """What all measurements share."""

    work: Path
    config: Path
    hosts: str
    rehearse: bool

    @property
    def device(self) -> str:
        return "cpu" if self.rehearse else "cuda"

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the settings of a run: a base model on a GPU."""
        if self.rehearse:
            return ("train.max_steps=6", *NO_BREAKS)
        sizes = [f"model.{name}={value}" for name, value in PRESETS["base"].items()]
        batches = ("batching.tokens_per_update=25000", "batching.tokens_per_micro_batch=25000")
        return (*sizes, *batches, "train.max_steps=120", *NO_BREAKS)


def measurements(setup: Setup) -> dict[str, Callable[[], dict[str, float]]]:
    """Return what is to be measured by name, the most valuable first."""
    found: dict[str, Callable[[], dict[str, float]]] = {"selftest": lambda: selftest(setup)}
    precisions = ("fp32",) if setup.rehearse else PRECISIONS
    for kind in precisions:
        found[f"speed {kind}"] = lambda kind=kind: train(setup, *PRECISIONS[kind])
    found["speed of all devices"] = lambda: train(setup, several=True)
    if setup.hosts or setup.rehearse:
        for name in STRATEGIES:
            found[f"strategy {name}"] = lambda name=name: train(
                setup, f"sync.strategy={name}", several=True, hosts=setup.hosts
            )
    found["compile"] = lambda: train(setup, "train.compile=true")
    found["beam search"] = lambda: beam_search(setup)
    found["saving"] = lambda: saving(setup)
    found["monitor"] = lambda: monitor(setup)
    return found


def selftest(setup: Setup) -> dict[str, float]:
    """Run the self-test; its own figures, and how many lines failed."""
    file = setup.work / "selftest.json"
    hosts = ["--hosts", setup.hosts] if setup.hosts else []
    call("selftest", "--json", file, "--device", setup.device, *hosts, may_fail=True)
    told = msgspec.json.decode(file.read_bytes())
    figures = {"failed": sum(line["passed"] is False for line in told["lines"])}
    for line in told["lines"]:
        figures |= {f"{line['name']}: {name}": one for name, one in line["figures"].items()}
    return figures


def train(
    setup: Setup, *settings: str, several: bool = False, hosts: str = ""
) -> dict[str, float]:
    """Train for a while; return the speed without the first third, which warms up."""
    run = setup.work / f"run-{time.time_ns()}"
    told = [f"run={run}", f"device={setup.device}", *setup.settings, *settings]
    command = ["launch", *(["--hosts", hosts] if hosts else [])] if several else ["train"]
    call(*command, setup.config, *(part for one in told for part in ("--set", one)))
    view = read_run(run)
    steps = view.steps[len(view.steps) // 3 :]
    seconds = sum(step.seconds for step in steps)
    return {
        "tokens_per_second": sum(step.target_tokens for step in steps) / seconds,
        "step_seconds": median([step.seconds for step in steps]),
        "exchange_seconds": median([step.exchange + step.agree for step in steps]),
        "loss": steps[-1].loss,
        "processes": float(view.starts[-1].size),
        "last_save_seconds": view.saves[-1].seconds,
    }


def beam_search(setup: Setup) -> dict[str, float]:
    """Translate with the model of a short run; start-up is measured with one line."""
    train(setup)
    run = max(setup.work.glob("run-*"), key=lambda path: path.stat().st_mtime)
    lines = (setup.config.parent / "text" / "valid.en").read_text("utf-8").splitlines()
    text = "\n".join(lines if setup.rehearse else lines * 20) + "\n"
    took = {}
    for name, given in (("one", lines[0] + "\n"), ("all", text)):
        began = time.perf_counter()
        call("translate", "--model", run, given=given)
        took[name] = time.perf_counter() - began
    count = text.count("\n")
    return {
        "sentences": float(count),
        "start_seconds": took["one"],
        "sentences_per_second": (count - 1) / max(took["all"] - took["one"], 1e-9),
    }


def saving(setup: Setup) -> dict[str, float]:
    """Return what a checkpoint takes, as benchmarks/saving.py does."""
    directory = setup.work / "saving"
    directory.mkdir(exist_ok=True)
    training = Training(5_000_000 if setup.rehearse else 61_000_000, setup.device, directory)
    try:
        return measure(training, 1 if setup.rehearse else 5)
    finally:
        training.checkpoints.close()


def monitor(setup: Setup) -> dict[str, float]:
    """Return the step with the monitor and without, in turns."""
    steps: dict[str, list[float]] = {"true": [], "false": []}
    for _ in range(1 if setup.rehearse else TURNS):
        for on, seconds in steps.items():
            seconds.append(train(setup, f"monitor.on={on}")["step_seconds"])
    with_it, without = median(steps["true"]), median(steps["false"])
    return {"with": with_it, "without": without, "overhead": with_it / without - 1}


def call(*arguments: object, given: str = "", may_fail: bool = False) -> None:
    """Run `unisono`; if it fails, raise an error with its last lines."""
    done = subprocess.run(
        [sys.executable, "-m", "unisono", *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not may_fail:
        raise RuntimeError(" | ".join(done.stderr.strip().splitlines()[-3:]))


def missing(hour: GpuHour, names: list[str], only: str) -> Iterator[str]:
    """Yield what has not been measured, or failed; those of `only`, if it names any."""
    wanted = [name for name in only.split(",") if name]
    for name in names:
        chosen = not wanted or any(name.startswith(one) for one in wanted)
        if chosen and (name not in hour.measured or hour.measured[name].error):
            yield name


def measured_now(action: Callable[[], dict[str, float]]) -> Measurement:
    """Measure; what fails is a measurement with an error."""
    began, figures, error = time.perf_counter(), {}, ""
    try:
        figures = action()
    except (RuntimeError, OSError, LookupError, msgspec.DecodeError) as caught:
        error = f"{type(caught).__name__}: {caught}"[:500]
    seconds = round(time.perf_counter() - began, 1)
    date = time.strftime("%Y-%m-%d %H:%M:%S")
    return Measurement(date=date, seconds=seconds, figures=figures, error=error)


def opened(output: Path, *, rehearse: bool) -> GpuHour:
    """Return the file as it is, or a new one; it has to be of this card."""
    card = machine() if rehearse else torch.cuda.get_device_name()
    new = GpuHour(card=card, driver=read_driver().version, rehearsal=rehearse)
    if not output.is_file():
        return new
    old = msgspec.json.decode(output.read_bytes(), type=GpuHour)
    if (old.card, old.driver, old.rehearsal) != (new.card, new.driver, rehearse):
        raise SystemExit(f"{output} is of {old.card} (driver {old.driver}): name another file")
    return old


def write(hour: GpuHour, output: Path) -> None:
    """Write the file as a whole."""
    atomic.write_bytes(output, msgspec.json.format(msgspec.json.encode(hour)) + b"\n")


def set_up(options: argparse.Namespace) -> Setup:
    """Make the small corpus and the config beside the file of results."""
    work = options.output.with_suffix(".work").resolve()
    device = "cpu" if options.rehearse else "cuda"
    config = make_trial(work, device)
    if options.corpus:
        text = config.read_text("utf-8")
        config = work / "corpus.toml"
        config.write_text(text.replace(str(work / "corpus"), str(options.corpus.resolve())))
    os.environ.setdefault("OMP_NUM_THREADS", "1" if options.rehearse else "4")
    return Setup(work, config, options.hosts, options.rehearse)


def main() -> None:
    """Measure what is missing, as long as there is time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gpu-hour.json"))
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--hosts", default="")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    if not options.rehearse and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU here: see docs/how-to/gpus.md, or --rehearse")
    until = time.monotonic() + 60 * options.minutes
    hour = opened(options.output, rehearse=options.rehearse)
    actions = measurements(set_up(options))
    for name in missing(hour, list(actions), options.only):
        if time.monotonic() > until:
            print(f"no time for: {name}")
            continue
        hour.measured[name] = found = measured_now(actions[name])
        write(hour, options.output)
        said = found.error or ", ".join(f"{k} {v:.4g}" for k, v in found.figures.items())
        print(f"{name} ({found.seconds:.0f} s): {said}", flush=True)
    done = ", ".join(name for name, one in hour.measured.items() if not one.error)
    print(f"| {hour.card} | {done} | {time.strftime('%Y-%m-%d')} |")


if __name__ == "__main__":
    main()
