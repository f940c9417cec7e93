"""Which device a process takes, by standing in for the answers of torch and NVML."""

import types
import warnings

import pytest
import torch

from support.nvml import Card, NvmlError, StandInNvml, cards
from unisono.comm.bootstrap import device as module
from unisono.comm.bootstrap.device import (
    TorchCuda,
    ask_torch,
    check_process_count,
    check_shared_memory,
    device_for,
    install_command,
    pick_device,
    runs_on,
    seat_of,
    use_device,
)
from unisono.comm.protocol import World
from unisono.errors import ConfigError, RunError
from unisono.nvidia import Driver, read_driver

CUDA_13 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")


def build(*capabilities, architectures=CUDA_13, cuda="13.0", version="2.13.0+cu130"):
    names = tuple(f"card {major}.{minor}" for major, minor in capabilities)
    return TorchCuda(version, cuda, architectures, names, capabilities)


def driver_of(*capabilities, **further):
    return read_driver(StandInNvml(cards(*capabilities), **further))


def refusal(*arguments):
    with pytest.raises(ConfigError) as caught:
        device_for(*arguments)
    assert caught.value.exit_code == 2
    return caught.value


def test_without_a_gpu_it_is_the_cpu():
    blind = build(cuda="", architectures=(), version="2.13.0+cpu")
    assert device_for("auto", blind, Driver(), {}) == "cpu"
    assert "no CUDA device" in refusal("cuda", blind, Driver(), {}).what


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0)])
def test_a_gpu_that_torch_can_use_is_used(wanted, capability):
    assert device_for(wanted, build(capability), driver_of(capability), {}) == "cuda"


@pytest.mark.parametrize("capability", [(6, 0), (7, 0)])
def test_the_usual_wheel_has_no_kernels_for_p100_and_v100(capability):
    error = refusal("auto", build(capability), driver_of(capability), {})
    assert f"sm_{capability[0]}{capability[1]}" in error.what
    assert "whl/cu126" in error.fix
    assert "torch==2.13.0" in error.fix
    older = build(capability, architectures=CU126, cuda="12.6", version="2.13.0+cu126")
    assert device_for("auto", older, driver_of(capability), {}) == "cuda"


def test_kernels_and_the_cards_they_run_on():
    assert runs_on(["sm_80"], (8, 9))
    assert not runs_on(["sm_80"], (9, 0))
    assert not runs_on(["sm_86"], (8, 0))
    assert runs_on(["compute_70"], (9, 0))
    assert not runs_on(["compute_90"], (8, 0))
    assert runs_on(["sm_90a"], (9, 0))
    assert not runs_on(["sm_100a"], (10, 3))
    assert not runs_on([], (8, 0))
    assert not runs_on(["gfx90a", "nonsense"], (9, 0))


def test_a_driver_too_old_is_refused_with_what_to_install():
    old = driver_of((7, 5), driver="470.57.02", cuda=11040)
    error = refusal("auto", build(), old, {})
    assert "driver 470.57.02 runs CUDA up to 11.4" in error.what
    assert "driver 580 or newer" in error.what
    assert "cu126" in error.fix
    assert 'device = "cpu"' in error.fix


def test_a_driver_between_the_two_takes_the_older_wheel():
    assert "cu126" in refusal("auto", build(), driver_of((8, 0), driver="535.1"), {}).fix
    # No wheel that this driver runs has kernels for the card.
    assert "update the driver" in install_command("2.13.0", [(12, 0)], Driver("535.1"))


def test_a_build_without_cuda_beside_a_gpu_is_refused():
    blind = build(cuda="", architectures=(), version="2.13.0+cpu")
    error = refusal("auto", blind, driver_of((7, 0), (7, 0)), {})
    assert "built without CUDA, but there is 2 × Tesla V100" in error.what
    assert "cu126" in error.fix
    plain = refusal("auto", blind, driver_of((8, 0)), {}).fix
    assert "'torch==2.13.0'; " in plain
    assert "index" not in plain


def test_the_driver_that_does_not_answer_is_refused():
    error = refusal("auto", build(), Driver(trouble="no driver runs"), {})
    assert "no driver runs" in error.what
    assert "--gpus all" in error.fix


@pytest.mark.parametrize("hidden", ["", "-1", "5"])
def test_hidden_gpus_are_named(hidden):
    error = refusal("auto", build(), driver_of((8, 0)), {"CUDA_VISIBLE_DEVICES": hidden})
    assert "hides 1 × A100" in error.what
    assert "unset CUDA_VISIBLE_DEVICES" in error.fix


def test_a_gpu_off_the_bus_is_named():
    lost = [*cards((8, 0)), Card(error=NvmlError("GPU is lost"))]
    driver = read_driver(StandInNvml(lost))
    for seen in (build((8, 0)), build()):
        error = refusal("auto", seen, driver, {})
        assert "GPU 1: GPU is lost" in error.what
        assert "Xid" in error.fix


def test_a_gpu_that_torch_cannot_open_is_refused():
    error = refusal("auto", build(), driver_of((8, 0)), {})
    assert "cannot open any" in error.what


def test_fewer_gpus_than_were_named():
    variables = {"CUDA_VISIBLE_DEVICES": "0,9,1"}
    error = refusal("auto", build((8, 0)), driver_of((8, 0), (8, 0)), variables)
    assert "names 3 GPUs, but torch can open only 1" in error.what


def test_cards_that_no_wheel_serves_together():
    assert "one age" in install_command("2.13.0", [(7, 0), (10, 0)], Driver("580.1"))


def test_later_versions_of_torch_have_no_wheel_for_old_cards():
    assert "'torch<2.15'" in install_command("2.15.0", [(7, 0)], Driver("580.1"))


def test_slices_count_as_one_gpu():
    sliced = read_driver(StandInNvml(cards((8, 0), (8, 0), mig=True)))
    assert device_for("auto", build((8, 0)), sliced, {}) == "cuda"
    with pytest.raises(ConfigError, match="slices"):
        check_process_count(World(0, 2, 0, 2, "cuda:0"), sliced)
    check_process_count(World(0, 1, 0, 1, "cuda:0"), sliced)


def test_what_torch_is_asked(monkeypatch):
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "device_count", lambda: 2)
    monkeypatch.setattr(cuda, "get_arch_list", lambda: ["sm_80"])
    monkeypatch.setattr(cuda, "get_device_name", lambda number: f"A100 {number}")
    monkeypatch.setattr(cuda, "get_device_capability", lambda number: (8, 0))
    asked = ask_torch()
    assert asked.names == ("A100 0", "A100 1")
    assert asked.capabilities == ((8, 0), (8, 0))
    monkeypatch.setattr(module, "read_driver", lambda: driver_of((8, 0), (8, 0)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert pick_device("auto") == "cuda"
    monkeypatch.setattr(cuda, "get_device_capability", lambda number: (7, 0))
    with pytest.raises(ConfigError, match="no kernels"):
        pick_device("auto")
    assert pick_device("cpu") == "cpu"


def test_a_driver_too_old_makes_torch_warn_and_us_speak(monkeypatch):
    def too_old():
        warnings.warn("The NVIDIA driver on your system is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    old = driver_of((8, 0), driver="535.104", cuda=12020)
    monkeypatch.setattr(module, "read_driver", lambda: old)
    with pytest.raises(ConfigError, match=r"driver 535.104 runs CUDA up to 12.2"):
        pick_device("auto")


def test_processes_and_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_process_count(World(0, 2, 0, 2, "cuda:0"), Driver())
    check_process_count(World(0, 4, 0, 4, "cpu"), Driver())
    with pytest.raises(ConfigError, match="4 processes for 2 GPUs") as caught:
        check_process_count(World(3, 4, 3, 4, "cuda:3"), Driver())
    assert "--workers 2" in caught.value.fix


def test_shared_memory_for_nccl(tmp_path, monkeypatch):
    usage = types.SimpleNamespace(free=40 * 2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda place: usage)
    check_shared_memory(World(0, 1, 0, 1, "cuda:0"), tmp_path)
    check_shared_memory(World(0, 2, 0, 2, "cpu"), tmp_path)
    with pytest.raises(ConfigError, match="NCCL needs") as caught:
        check_shared_memory(World(0, 2, 0, 2, "cuda:0"), tmp_path)
    assert "--shm-size" in caught.value.fix


def test_a_gpu_that_cannot_be_opened_is_our_sentence(monkeypatch):
    def busy(device):
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nX")

    monkeypatch.setattr(torch.cuda, "set_device", busy)
    with pytest.raises(RunError, match=r"process 1 cannot use cuda:1: CUDA error: .* busy"):
        use_device(World(1, 2, 1, 2, "cuda:1"))


def test_the_seat_of_a_gpu(monkeypatch):
    facts = types.SimpleNamespace(name="A100", major=8, minor=0, uuid="ab-cd")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    seat = seat_of(World(device="cuda:0"), Driver("580.65.06"))
    assert (seat.kind, seat.capability, seat.nccl) == ("cuda", (8, 0), "2.27.5")
    assert (seat.uuid, seat.driver) == ("ab-cd", "580.65.06")
