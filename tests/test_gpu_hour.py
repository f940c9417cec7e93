"""benchmarks/gpu_hour.py on a CPU: one file, which goes on where it stopped."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def gpu_hour(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu_hour")


def rehearse(output, *options):
    return subprocess.run(
        [
            sys.executable,
            BENCHMARKS / "gpu_hour.py",
            "--rehearse",
            "--output",
            output,
            *options,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    ).stdout


@pytest.mark.ranks
def test_a_rehearsal_goes_into_a_file_from_which_it_goes_on(tmp_path, gpu_hour):
    output = tmp_path / "hour.json"
    assert "speed fp32 (" in rehearse(output, "--only", "speed fp32")
    told = json.loads(output.read_text())
    assert told["rehearsal"]
    figures = told["measured"]["speed fp32"]["figures"]
    assert figures["tokens_per_second"] > 0
    assert figures["processes"] == 1
    hour = gpu_hour.opened(output, rehearse=True)
    assert list(gpu_hour.missing(hour, ["speed fp32", "compile"], "")) == ["compile"]


@pytest.mark.ranks
@pytest.mark.long(minutes=10)
@pytest.mark.timeout(1800)
def test_everything_can_be_rehearsed(tmp_path, gpu_hour):
    output = tmp_path / "hour.json"
    rehearse(output)
    measured = json.loads(output.read_text())["measured"]
    setup = gpu_hour.Setup(tmp_path, tmp_path, "", rehearse=True)
    assert list(measured) == list(gpu_hour.measurements(setup))
    assert not [name for name, one in measured.items() if one.get("error")]


def test_on_gpus_every_precision_and_with_hosts_every_strategy_is_measured(gpu_hour, tmp_path):
    alone = gpu_hour.measurements(gpu_hour.Setup(tmp_path, tmp_path, "", rehearse=False))
    both = gpu_hour.measurements(gpu_hour.Setup(tmp_path, tmp_path, "a,b", rehearse=False))
    assert next(iter(alone)) == "selftest"
    assert {f"speed {kind}" for kind in ("bf16", "fp16", "tf32", "fp32")} <= alone.keys()
    assert {f"strategy {name}" for name in ("ddp", "compressed")} <= both.keys() - alone.keys()


def test_what_failed_is_recorded_and_tried_again(gpu_hour, tmp_path):
    def break_down():
        raise RuntimeError("no such card")

    hour = gpu_hour.GpuHour(card="T4", driver="580")
    hour.measured["good"] = gpu_hour.measured_now(lambda: {"speed": 1.0})
    hour.measured["bad"] = gpu_hour.measured_now(break_down)
    assert hour.measured["bad"].error == "RuntimeError: no such card"
    assert list(gpu_hour.missing(hour, ["good", "bad", "new"], "")) == ["bad", "new"]
    assert list(gpu_hour.missing(hour, ["good", "bad", "new"], "new")) == ["new"]


def test_a_file_of_another_card_is_refused(gpu_hour, tmp_path):
    output = tmp_path / "hour.json"
    gpu_hour.write(gpu_hour.GpuHour(card="T4", driver="580", rehearsal=True), output)
    with pytest.raises(SystemExit, match="is of T4"):
        gpu_hour.opened(output, rehearse=True)
