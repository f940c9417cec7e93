"""Updates on fake GPUs (docs/explanations/gpu-rehearsal.md): no number is computed here.

`python tests/gpu/test_rehearsal.py` writes the golden numbers anew.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from shutil import which

import pytest

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
STRATEGIES = [
    ("ddp", 8), ("all_reduce", 8), ("compressed", 8), ("compressed", 4), ("powersgd", 8),
    ("diloco", 8),
]  # fmt: skip
PRECISIONS = ["fp32", "tf32", "fp16", "bf16"]
WORLDS = {"1": [1], "2": [2], "2x1": [1, 1], "2x2": [2, 2]}
# An update may wait for the GPU this often, and nowhere else.
AGREE = {"tolist in comm/group.py:gather": 1}
ALLOWED = {
    "diloco": AGREE | {"item in comm/strategies/diloco_outer.py:<genexpr>": 1},
    # torch's own hook waits once a bucket.
    "powersgd": AGREE | {"torch.cuda.synchronize in comm/strategies/powersgd.py:send": 1},
}
TOLERANCE = 0.1


BASE = {"model": "base", "vocabulary": 32_000, "micro_batches": 1}
PEAK_GB = {
    ("fp16", 4096): 2.499, ("fp16", 16_384): 6.448, ("fp16", 25_000): 9.214,
    ("fp32", 4096): 3.187, ("fp32", 16_384): 9.594, ("fp32", 25_000): 14.216,
}  # fmt: skip
MOST_GB_IN_FP16 = 9.5  # of 25,000 tokens: a V100 has 16, of which CUDA and NCCL take 1.5
MOST_LAUNCHES_IN_4_BITS = 2200


def case_of(strategy, bits, precision, world):
    return {
        "strategy": strategy,
        "bits": bits,
        "precision": precision,
        "machines": WORLDS[world],
    }


def all_cases():
    return {
        f"{strategy}{bits}-{precision}-{world}": case_of(strategy, bits, precision, world)
        for strategy, bits in STRATEGIES
        for precision in PRECISIONS
        for world in WORLDS
        if not (strategy == "diloco" and world == "1")  # refused: nobody to agree with
    }


CASES = all_cases()
QUICK = [
    name
    for name, case in CASES.items()
    if (case["precision"] == "fp16" and case["machines"] in ([1, 1], [2, 2]))
    or name.startswith(("ddp8-fp32-1", "ddp8-bf16-1"))
]
REST = [name for name in CASES if name not in QUICK]


def missing():
    if which("g++") is None:
        return "g++ is missing, which compiles the stand-in for CUDA (apt install g++)"
    if "+cpu" not in version("torch"):
        return "torch has CUDA of its own: the stand-in is for CPU builds"
    return ""


def rehearsed(cases):
    """Return the results of `cases`, all from one new process."""
    if missing():
        pytest.skip(missing())
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    done = subprocess.run(
        [sys.executable, HERE / "rehearse.py"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def quick():
    return dict(zip(QUICK, rehearsed([CASES[name] for name in QUICK]), strict=True))


@pytest.fixture(scope="module")
def rest():
    return dict(zip(REST, rehearsed([CASES[name] for name in REST]), strict=True))


def check(name, found):
    golden = json.loads(GOLDEN.read_text("utf-8"))[name]
    assert not found["on_cpu"]
    assert not found["races"]
    assert not found["freed_early"]
    allowed = ALLOWED.get(found["strategy"], AGREE) if sum(found["machines"]) > 1 else AGREE
    assert found["synchronisations"] == allowed
    assert all(copy.startswith("pinned") for copy in found["copies"]), found["copies"]
    for key in ("launches", "megabytes"):
        assert found[key] == pytest.approx(golden[key], rel=TOLERANCE), key
    assert found["messages"] == golden["messages"]


@pytest.mark.ranks
@pytest.mark.parametrize("name", QUICK)
def test_an_update_is_clean_on_gpus(name, quick):
    check(name, quick[name])


@pytest.mark.long
@pytest.mark.parametrize("name", REST)
def test_an_update_is_clean_on_gpus_in_every_precision_and_world(name, rest):
    check(name, rest[name])


@pytest.mark.long
def test_a_base_model_fits_and_packs_in_few_launches():
    sizes = [{**BASE, "precision": kind, "tokens": tokens} for kind, tokens in PEAK_GB]
    packed = {**case_of("compressed", 4, "fp16", "2x1"), **BASE, "tokens": 4096}
    *found, quantized = rehearsed([*sizes, packed])
    peaks = {(one["precision"], one["tokens"]): one["peak_gb"] for one in found}
    assert peaks == pytest.approx(PEAK_GB, rel=TOLERANCE)
    assert peaks["fp16", 25_000] <= MOST_GB_IN_FP16
    assert quantized["launches"] <= MOST_LAUNCHES_IN_4_BITS


@pytest.mark.ranks
def test_validation_and_beam_search_stay_on_the_gpu():
    greedy, beams = rehearsed([{"beam": 1}, {"beam": 4}])
    assert greedy["sentences"] == beams["sentences"] == 16
    assert not greedy["on_cpu"]
    assert not beams["on_cpu"]


@pytest.mark.ranks
def test_streams_that_do_not_wait_for_each_other_are_found():
    right, race, freed = rehearsed([{"planted": kind} for kind in ("right", "race", "freed")])
    assert right == {"races": 0, "freed_early": 0}
    assert race["races"] == 1
    assert freed == {"races": 0, "freed_early": 1}


def main():
    results = zip(CASES, rehearsed(list(CASES.values())), strict=True)
    kept = ("launches", "megabytes", "messages")
    golden = {name: {key: found[key] for key in kept} for name, found in results}
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
