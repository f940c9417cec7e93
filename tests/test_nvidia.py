"""What the driver says about this machine, by standing in for NVML, /dev and /sys."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.nvml import Card, NoPermissionError, NvmlError, StandInNvml, cards
from unisono.nvidia import ALLOCATOR_VARIABLES, Driver, keep_gpu_memory_whole, read_driver


def test_a_machine_without_a_gpu_has_nothing_to_say(tmp_path):
    absent = StandInNvml(init_error=NvmlError("NVML Shared Library Not Found"))
    assert read_driver(absent, tmp_path) == Driver()
    assert read_driver(None, tmp_path) == Driver()


def test_a_driver_names_its_gpus(tmp_path):
    driver = read_driver(StandInNvml(cards((7, 0), (8, 0))), tmp_path)
    assert (driver.version, driver.branch, driver.cuda) == ("580.65.06", 580, (13, 0))
    assert [gpu.capability for gpu in driver.gpus] == [(7, 0), (8, 0)]
    assert not driver.trouble


def test_device_files_without_a_driver_are_trouble(tmp_path):
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    silent = StandInNvml(init_error=NvmlError("Driver/library version mismatch"))
    trouble = read_driver(silent, tmp_path).trouble
    assert trouble.startswith("2 NVIDIA GPUs have device files")
    assert "Driver/library version mismatch" in trouble


@pytest.mark.parametrize(
    ("vendor", "kind", "found"),
    [
        ("0x10de", "0x030200", True),
        ("0x10de", "0x030000", False),
        ("0x8086", "0x030200", False),
    ],
)
def test_a_compute_card_on_the_bus_without_a_driver_is_trouble(tmp_path, vendor, kind, found):
    device = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    silent = StandInNvml(init_error=NvmlError("Driver Not Loaded"))
    assert ("0000:3b:00.0" in read_driver(silent, tmp_path).trouble) == found


def test_gpus_of_others_do_not_count_and_lost_ones_are_named(tmp_path):
    gpus = [
        Card(error=NoPermissionError("Insufficient Permissions")),
        Card(uuid="GPU-1"),
        Card(error=NvmlError("GPU is lost")),
    ]
    driver = read_driver(StandInNvml(gpus), tmp_path)
    assert [gpu.fault for gpu in driver.gpus] == ["", "GPU is lost"]
    assert driver.gpus[1].name == "GPU 2"


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        (None, 3),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("2,0", 2),
        ("0,7,1", 1),  # CUDA stops at the first that is wrong
        ("GPU-1", 1),
        ("GPU-1,GPU-2", 2),
        ("1,1", 1),
    ],
)
def test_what_cuda_may_use(variable, count):
    driver = read_driver(StandInNvml(cards((8, 0), (8, 0), (8, 0))))
    variables = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert driver.processes(variables) == count


def test_slices_of_gpus_give_work_to_one_process():
    driver = read_driver(StandInNvml(cards((8, 0), (8, 0), mig=True)))
    assert driver.processes({}) == 1
    assert driver.processes({"CUDA_VISIBLE_DEVICES": "MIG-4711"}) == 1


@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({}, "expandable_segments:True"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, "backend:native"),
        ({"PYTORCH_ALLOC_CONF": "backend:native"}, None),
    ],
)
def test_memory_grows_in_place_unless_the_user_set_it(variables, kept):
    keep_gpu_memory_whole(variables)
    assert variables.get("PYTORCH_CUDA_ALLOC_CONF") == kept


TOLD_BEFORE_TORCH = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch:", os.environ.get("PYTORCH_CUDA_ALLOC_CONF"), flush=True)
            sys.exit()
sys.meta_path.insert(0, Watch())
from unisono.cli import main
main()
"""


def test_train_sets_it_before_torch_is_there(tmp_path):
    config = Path(__file__).parents[1] / "configs/tiny.toml"
    words = [sys.executable, "-c", TOLD_BEFORE_TORCH, "train", config]
    variables = {k: v for k, v in os.environ.items() if k not in ALLOCATOR_VARIABLES}
    done = subprocess.run(words, capture_output=True, text=True, env=variables, check=False)
    assert done.stdout == "torch: expandable_segments:True\n", done.stderr
