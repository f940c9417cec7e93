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

pytestmark = pytest.mark.ranks

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
ALLOWED = {"diloco": AGREE | {"item in comm/strategies/diloco_outer.py:<genexpr>": 1}}
MOST_WAITS = 2
TOLERANCE = 0.1


BASE = {"model": "base", "vocabulary": 32_000, "micro_batches": 1}
PEAK_GB = {
    ("fp16", 4096): 2.499, ("fp16", 16_384): 6.448, ("fp16", 25_000): 9.214,
    ("fp32", 4096): 3.187, ("fp32", 16_384): 9.594, ("fp32", 25_000): 14.216,
}  # fmt: skip
MOST_GB_IN_FP16 = 9.5  # of 25,000 tokens: a V100 has 16, of which CUDA and NCCL take 1.5
MOST_LAUNCHES_IN_4_BITS = 2200


def case_of(strategy, bits, precision, world, triton=False):
    return {
        "strategy": strategy,
        "bits": bits,
        "precision": precision,
        "machines": WORLDS[world],
        "triton": triton,
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
QUANTIZED = {
    f"{strategy}{bits}-triton-{world}": case_of(strategy, bits, "fp16", world, triton=True)
    for strategy, bits in (("compressed", 8), ("compressed", 4), ("diloco", 8))
    for world in ("2", "2x1", "2x2")
}


class Rehearsal:
    """A process with a fake GPU that rehearses one case after the other."""

    def __init__(self, errors):
        self._errors = errors
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, HERE / "rehearse.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
            )

    def of(self, case):
        """Return the result of a case."""
        try:
            print(json.dumps(case), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (ValueError, BrokenPipeError):
            pytest.fail(self._errors.read_text("utf-8")[-3000:])

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def missing():
    if which("g++") is None:
        return "g++ is missing, which compiles the stand-in for CUDA (apt install g++)"
    if "+cpu" not in version("torch"):
        return "torch has CUDA of its own: the stand-in is for CPU builds"
    return ""


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    one = Rehearsal(tmp_path_factory.mktemp("rehearsal") / "errors")
    yield one
    one.close()


def check(name, found):
    golden = json.loads(GOLDEN.read_text("utf-8"))[name]
    assert not found["on_cpu"]
    assert not found["races"]
    assert not found["freed_early"]
    allowed = ALLOWED.get(found["strategy"], AGREE) if sum(found["machines"]) > 1 else AGREE
    assert found["synchronisations"] == allowed
    assert sum(allowed.values()) <= MOST_WAITS
    assert all(copy.startswith("pinned") for copy in found["copies"]), found["copies"]
    for key in ("launches", "megabytes"):
        assert found[key] == pytest.approx(golden[key], rel=TOLERANCE), key
    assert found["messages"] == golden["messages"]


@pytest.mark.parametrize("name", CASES)
def test_an_update_is_clean_on_gpus(name, rehearsal):
    found = rehearsal.of(CASES[name])
    check(name, found)
    assert not any(found["fused"].values())


@pytest.mark.parametrize("name", QUANTIZED)
def test_with_triton_a_message_is_one_launch_and_the_rest_is_clean(name, rehearsal):
    pytest.importorskip("triton", reason="triton is missing (.ci/run installs it)")
    found = rehearsal.of(QUANTIZED[name])
    check(name, found)
    assert set(found["fused"].values()) == {1}  # the model's gradient is one bucket


@pytest.mark.parametrize("precision, tokens", PEAK_GB)
def test_a_base_model_fits(precision, tokens, rehearsal):
    peak = rehearsal.of({**BASE, "precision": precision, "tokens": tokens})["peak_gb"]
    assert peak == pytest.approx(PEAK_GB[precision, tokens], rel=TOLERANCE)
    assert (precision, tokens) != ("fp16", 25_000) or peak <= MOST_GB_IN_FP16


def test_a_base_model_packs_in_few_launches(rehearsal):
    packed = {**case_of("compressed", 4, "fp16", "2x1"), **BASE, "tokens": 4096}
    assert rehearsal.of(packed)["launches"] <= MOST_LAUNCHES_IN_4_BITS


def test_validation_and_beam_search_stay_on_the_gpu(rehearsal):
    greedy, beams = rehearsal.of({"beam": 1}), rehearsal.of({"beam": 4})
    assert greedy["sentences"] == beams["sentences"] == 16
    assert not greedy["on_cpu"]
    assert not beams["on_cpu"]


def test_streams_that_do_not_wait_for_each_other_are_found(rehearsal):
    right, race, freed = (
        rehearsal.of({"planted": kind}) for kind in ("right", "race", "freed")
    )
    assert right == {"races": 0, "freed_early": 0}
    assert race["races"] == 1
    assert freed == {"races": 0, "freed_early": 1}


def main():
    kept, errors = ("launches", "megabytes", "messages"), Path(os.devnull)
    rehearsal, golden = Rehearsal(errors), {}
    for name, case in {**CASES, **QUANTIZED}.items():
        found = rehearsal.of(case)
        golden[name] = {key: found[key] for key in kept}
    rehearsal.close()
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
