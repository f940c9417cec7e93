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

from unisono.cost_model.strategies import STRATEGIES as KNOWN_STRATEGIES
from unisono.models.memory import (
    KEPT_BYTES_PER_WEIGHT,
    checkpoint_copy_bytes,
    training_bytes,
)
from unisono.models.settings import PRESETS, TransformerSettings, parameter_count

pytestmark = pytest.mark.ranks

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
STRATEGIES = [
    ("ddp", 8), ("all_reduce", 8), ("compressed", 8), ("compressed", 4), ("powersgd", 8),
    ("diloco", 8),
]  # fmt: skip
PRECISIONS = ["fp32", "tf32", "fp16", "bf16"]
WORLDS = {"1": [1], "2": [2], "2x1": [1, 1], "2x2": [2, 2], "3x1": [1] * 3, "3x2": [2] * 3}
# An update may wait for the GPU this often, and nowhere else.
AGREE = {"tolist in comm/group.py:gather": 1}
ALLOWED = {"diloco": AGREE | {"item in comm/strategies/diloco_outer.py:<genexpr>": 1}}
MOST_WAITS = 2
# The thread that writes a checkpoint waits for the copies; training does not.
OF_THREAD = {"event.synchronize in train/checkpoints/checkpoint_sync.py:_write": 1}
COPIED_TO_GPU = "pinned to the GPU in batching/stream.py:to"
COPIED_TO_HOST = "pinned from the GPU in train/checkpoints/background_save.py:add"
TOLERANCE = 0.1

SETTINGS = TransformerSettings(**PRESETS["base"])
BASE = {"model": "base", "vocabulary": 32_000, "first": 512}
SIZES = (4096, 16_384, 25_000)
PEAKS_GB = {"fp16": (2.499, 6.690, 9.456), "fp32": (3.187, 9.836, 14.458)}
MOST_GB_IN_FP16 = 9.5  # of 25,000 tokens: a V100 has 16, of which CUDA and NCCL take 1.5
MOST_LAUNCHES_IN_4_BITS = 2200


def case_of(strategy, bits, precision, world, **more):
    return {
        "strategy": strategy,
        "bits": bits,
        "precision": precision,
        "machines": WORLDS[world],
        **more,
    }


def all_cases():
    return {
        f"{strategy}{bits}-{precision}-{world}": case_of(
            strategy,
            bits,
            precision,
            world,
            saves=precision == "fp16" and world == "2x2",
        )
        for strategy, bits in STRATEGIES
        for precision in PRECISIONS
        for world in ("1", "2", "2x1", "2x2")
        if not (strategy == "diloco" and world == "1")  # refused: nobody to agree with
    }


CASES = all_cases()
# From three machines on, quantized numbers are summed in two phases.
FURTHER = {
    f"{strategy}{bits}-fp16-{world}": case_of(strategy, bits, "fp16", world)
    for strategy, bits in (("compressed", 4), ("diloco", 8))
    for world in ("3x1", "3x2")
} | {"muon-fp16-2": case_of("ddp", 8, "fp16", "2", optimizer="muon", average=0.9, saves=True)}
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
    assert set(found["copies"]) == {COPIED_TO_GPU}
    for key in ("launches", "megabytes", "peaks_gb"):
        assert found[key] == pytest.approx(golden[key], rel=TOLERANCE), key
    assert found["messages"] == golden["messages"]
    if found["saves"]:
        check_save(found)


def check_save(found):
    """Check two checkpoints, of which each is written while an update is made."""
    first, again = found["first_save"], found["second_save"]
    for one in (first, again):
        assert set(one["copies"]) == {COPIED_TO_HOST}
        assert sum(one["waits"].values()) <= 1  # whose residuals there are
        assert one["waits_of_thread"] == OF_THREAD
        # The residuals of one weight, of all processes, are there at a time.
        assert one["more_on_gpu_gb"] <= first["pinned_gb"] / 4
    assert first["pinned_gb"] > 0
    assert again["pinned_gb"] == 0  # it uses the memory of the first one
    assert not found["read_early"]


@pytest.mark.parametrize("name", CASES | FURTHER)
def test_an_update_is_clean_on_gpus(name, rehearsal):
    found = rehearsal.of((CASES | FURTHER)[name])
    check(name, found)
    assert not any(found["fused"].values())


def test_no_strategy_is_left_out():
    assert {name for name, _ in STRATEGIES} == set(KNOWN_STRATEGIES)


@pytest.mark.parametrize("name", QUANTIZED)
def test_with_triton_a_message_is_one_launch_and_the_rest_is_clean(name, rehearsal):
    pytest.importorskip("triton", reason="triton is missing (.ci/run installs it)")
    found = rehearsal.of(QUANTIZED[name])
    check(name, found)
    assert set(found["fused"].values()) == {1}  # the model's gradient is one bucket


@pytest.mark.parametrize("precision", PEAKS_GB)
def test_a_base_model_fits(precision, rehearsal):
    half = precision == "fp16"
    found = rehearsal.of({**BASE, "precision": precision, "tokens": SIZES, "saves": half})
    peaks = found["peaks_gb"][1 : 1 + len(SIZES)]
    assert peaks == pytest.approx(PEAKS_GB[precision], rel=TOLERANCE)
    formula = [training_bytes(SETTINGS, 32_000, size, precision) / 1e9 for size in SIZES]
    assert formula == pytest.approx(peaks, rel=TOLERANCE)
    if half:
        assert peaks[-1] <= MOST_GB_IN_FP16
        check_save(found)
        copies = checkpoint_copy_bytes(SETTINGS, 32_000) / 1e9
        assert found["first_save"]["pinned_gb"] == pytest.approx(copies, rel=0.01)


@pytest.mark.parametrize("strategy, bits", STRATEGIES)
def test_what_a_strategy_keeps_is_in_the_plan_for_memory(strategy, bits, rehearsal):
    found = rehearsal.of(
        {**case_of(strategy, bits, "fp16", "2x2"), **BASE, "tokens": SIZES[:1]}
    )
    kept = found["peaks_gb"][1] - PEAKS_GB["fp16"][0]
    assert kept <= KEPT_BYTES_PER_WEIGHT * parameter_count(SETTINGS, 32_000) / 1e9
    if (strategy, bits) == ("compressed", 4):
        assert found["launches"] <= MOST_LAUNCHES_IN_4_BITS


def test_validation_and_beam_search_stay_on_the_gpu(rehearsal):
    greedy, beams = rehearsal.of({"beam": 1}), rehearsal.of({"beam": 4})
    assert greedy["sentences"] == beams["sentences"] == 16
    assert not greedy["on_cpu"]
    assert not beams["on_cpu"]


def test_streams_that_do_not_wait_for_each_other_are_found(rehearsal):
    kinds = ("right", "race", "freed", "read")
    right, race, freed, read = (rehearsal.of({"planted": kind}) for kind in kinds)
    clean = {"races": 0, "freed_early": 0, "read_early": 0}
    assert right == clean
    assert race["races"] == 1
    assert freed == {**clean, "freed_early": 1}
    assert read == {**clean, "read_early": 1}


def main():
    kept, errors = ("launches", "megabytes", "peaks_gb", "messages"), Path(os.devnull)
    rehearsal, golden = Rehearsal(errors), {}
    for name, case in {**CASES, **FURTHER, **QUANTIZED}.items():
        found = rehearsal.of(case)
        golden[name] = {key: found[key] for key in kept}
    rehearsal.close()
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
