"""As many processes as GPUs, by standing in for the answers of NVML."""

import pytest

from support.nvml import StandInNvml, cards
from unisono.errors import ConfigError
from unisono.launch import slots
from unisono.launch.plan import Host
from unisono.launch.preflight import MachineReport, differences_between
from unisono.launch.probe_client import Facts
from unisono.launch.slots import (
    MachineGpus,
    fill_slots,
    gpus_for,
    requested_workers,
    workers_here,
)
from unisono.nvidia import read_driver

EIGHT = MachineGpus("A100", 8, "580.1")


@pytest.fixture
def two_gpus(monkeypatch):
    driver = read_driver(StandInNvml(cards((8, 0), (8, 0))))
    monkeypatch.setattr(slots, "read_driver", lambda: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_one_process_for_each_gpu(two_gpus, monkeypatch):
    assert workers_here(0, "auto") == 2
    assert workers_here(1, "auto") == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert workers_here(0, "cuda") == 1


def test_more_processes_than_gpus_are_refused(two_gpus):
    with pytest.raises(ConfigError, match="4 processes, but 2 × A100") as caught:
        workers_here(4, "auto")
    assert caught.value.exit_code == 2
    assert workers_here(4, "cpu") == 4  # beside the GPUs


def test_without_gpus_there_are_two(monkeypatch):
    silent = StandInNvml(init_error=StandInNvml.NVMLError("not found"))
    monkeypatch.setattr(slots, "read_driver", lambda: read_driver(silent))
    assert workers_here(0, "auto") == 2
    assert workers_here(5, "auto") == 5


def test_hosts_get_what_they_have():
    hosts = (Host("a", 0), Host("b", 3), Host("c", 0))
    filled = fill_slots(hosts, [EIGHT, EIGHT, MachineGpus()])
    assert [host.slots for host in filled] == [8, 3, 2]


@pytest.mark.parametrize(
    ("resources", "workers"),
    [
        ({}, 2),
        ({"gres": "gpu:4"}, 4),
        ({"gres": "gpu:v100:8"}, 8),
        ({"gres": "nic:1"}, 2),
        ({"gpus-per-node": "a100:2"}, 2),
        ({"nvidia.com/gpu": "3"}, 3),
        ({"cpu": "8"}, 2),
    ],
)
def test_a_cluster_is_asked_for_gpus(resources, workers):
    assert requested_workers(0, resources) == workers
    if workers != 2:
        with pytest.raises(ConfigError, match="each process needs a GPU"):
            requested_workers(workers + 1, resources)


def reports(first, second, slots=0):
    facts = [Facts(gpus=gpus, settings={}) for gpus in (first, second)]
    return [
        MachineReport(Host("a", slots), facts[0]),
        MachineReport(Host("b", slots), facts[1]),
    ]


def said(*arguments, **further):
    found = dict(differences_between(reports(*arguments, **further), {}))
    return [problem.what for problems in found.values() for problem in problems]


def test_machines_with_and_without_gpus_are_told_before_anything_starts():
    assert said(EIGHT, EIGHT) == []
    assert "it has no GPU, a has 8 × A100" in said(EIGHT, MachineGpus())[0]
    assert "9 processes, but 8 × A100" in said(EIGHT, EIGHT, slots=9)[0]


def test_the_setting_cpu_means_no_gpu():
    driver = read_driver(StandInNvml(cards((8, 0))))
    assert gpus_for("cpu", driver, {}) == MachineGpus()
    assert gpus_for("auto", driver, {}) == MachineGpus("A100", 1, "580.65.06")
