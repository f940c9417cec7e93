"""InfiniBand ports look like interfaces, by standing in for /sys; GPUs by their UUID."""

from types import SimpleNamespace

import pytest
import torch

from unisono.comm.bootstrap.nccl import fabric_port
from unisono.monitor.fabric import fabric_links, fabric_traffic
from unisono.monitor.gpus import Gpus
from unisono.records.monitor_events import NetworkInterface, Traffic
from unisono.train.supervision import gpu_uuid


@pytest.fixture
def ports(tmp_path):
    for name, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        counters = tmp_path / name / "ports/1/counters"
        counters.mkdir(parents=True)
        (counters.parent / "state").write_text(f"{state}\n")
        (counters.parent / "rate").write_text("100 Gb/sec (4X EDR)\n")
    counters = tmp_path / "mlx5_0/ports/1/counters"
    numbers = {"port_xmit_data": 250, "port_rcv_data": 1000, "symbol_error": 3}
    for name, number in {**numbers, "port_xmit_discards": 2}.items():
        (counters / name).write_text(f"{number}\n")
    return tmp_path


def test_a_port_carries_words_of_four_bytes(ports):
    seen = Traffic(received=4000, sent=1000, errors=3, drops=2)
    assert fabric_traffic(ports) == {"mlx5_0:1": seen}


def test_ports_that_are_up_have_a_rate(ports):
    assert fabric_links(ports) == {"mlx5_0:1": NetworkInterface(mbit_per_s=100_000)}


def test_a_machine_without_a_fabric_has_none(tmp_path):
    assert fabric_traffic(tmp_path) == fabric_links(tmp_path) == {}


def test_processes_name_the_port_as_the_monitor_does():
    assert fabric_port("InfiniBand mlx5_0 port 1 (100 Gb/sec (4X EDR)), RoCE …") == "mlx5_0:1"
    assert fabric_port("") == ""


@pytest.mark.parametrize(
    ("uuid", "name"), [("ab-cd", "GPU-ab-cd"), ("MIG-7", "MIG-7"), ("", "")]
)
def test_a_gpu_is_known_by_its_uuid(monkeypatch, uuid, name):
    facts = SimpleNamespace(uuid=uuid)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    assert gpu_uuid("cuda:1") == name
    assert gpu_uuid("cpu") == ""


class WithLinks:
    """Stands in for NVML on a card with NVLink and errors in its memory."""

    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 1, 2

    class NVMLError(Exception):
        pass

    def __getattr__(self, name):
        answers = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetTotalEccErrors": 5,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetFieldValues": [
                SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=v)) for v in (3, 4)
            ],
        }
        if name.startswith("nvml"):
            return lambda *_: answers.get(name)
        raise AttributeError(name)


def test_errors_of_memory_and_bytes_over_nvlink_are_sampled():
    nvml = WithLinks()
    nvml.nvmlDeviceGetHandleByIndex = lambda number: number
    (gpu,) = Gpus(nvml, visible="0").look()
    assert (gpu.ecc_errors, gpu.nvlink_bytes, gpu.celsius) == (5, 7 * 1024, 61)
