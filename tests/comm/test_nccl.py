"""How NCCL is set up and its errors are read, without NCCL: by its variables and its words."""

import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from unisono.comm.bootstrap import join as module
from unisono.comm.bootstrap.find_leader import FoundLeader
from unisono.comm.bootstrap.nccl import fabric_of, interface_in_use, watchdog_variables
from unisono.comm.bootstrap.network import Network
from unisono.comm.group import patience
from unisono.comm.protocol import World
from unisono.comm.waiting import how_contact_was_lost, what_the_gpu_reports
from unisono.errors import PeerLostError, RunError
from unisono.nvidia import recent_xids
from unisono.train import supervision

ACROSS = World(0, 4, 0, 2, "cuda:0")


def test_the_watchdog_leaves_the_last_word_to_us():
    assert watchdog_variables({})["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "2"
    told = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" not in watchdog_variables(told)


def test_the_interface_is_named_without_nccls_mark():
    variables = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth1"}
    assert interface_in_use("cuda:1", variables) == "eth1"
    assert interface_in_use("cpu", variables) == "eth0"


@pytest.fixture
def adapters(tmp_path):
    ports = {
        "mlx5_0": ("4: ACTIVE", "InfiniBand", "100 Gb/sec (4X EDR)"),
        "mlx5_1": ("4: ACTIVE", "Ethernet", "25 Gb/sec (1X EDR)"),
        "mlx5_2": ("1: DOWN", "InfiniBand", "100 Gb/sec (4X EDR)"),
    }
    for name, (state, layer, rate) in ports.items():
        port = tmp_path / name / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "link_layer").write_text(f"{layer}\n")
        (port / "rate").write_text(f"{rate}\n")
    return tmp_path


def test_the_fabric_is_found_and_named(adapters):
    assert fabric_of(ACROSS, {}, adapters) == (
        "InfiniBand mlx5_0 port 1 (100 Gb/sec (4X EDR)), RoCE mlx5_1 port 1 "
        "(25 Gb/sec (1X EDR))"
    )
    assert fabric_of(World(0, 2, 0, 2, "cuda:0"), {}, adapters) == ""  # all on one machine
    assert fabric_of(World(0, 4, 0, 2, "cpu"), {}, adapters) == ""  # gloo speaks TCP
    assert fabric_of(ACROSS, {"NCCL_IB_DISABLE": "1"}, adapters) == ""


@pytest.mark.parametrize(
    "words",
    [
        "NCCL error in: X.cpp:1, remote process exited or there was a network error, NCCL "
        "version 2.27.5\nncclRemoteError: A call failed possibly due to a network error",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)",
        "socketProgress: Connection closed by remote peer node2<42>",
        "NCCL communicator was aborted on rank 0.",
        "Some NCCL operations have failed or timed out.",
    ],
)
def test_nccls_words_for_a_lost_peer_are_understood(words):
    assert how_contact_was_lost(RuntimeError(words))
    with pytest.raises(PeerLostError) as caught:
        end_by(RuntimeError(words))
    assert caught.value.exit_code == 76


def test_other_errors_are_not_lost_peers():
    assert not how_contact_was_lost(RuntimeError("CUDA out of memory"))
    with pytest.raises(RuntimeError, match="shape"):
        end_by(RuntimeError("shape mismatch"))


@pytest.mark.parametrize(
    "words", ["CUDA error: uncorrectable ECC error encountered", "GPU has fallen off the bus"]
)
def test_a_gpu_that_fails_in_mid_run_is_named(words, monkeypatch):
    assert what_the_gpu_reports(RuntimeError(words))
    monkeypatch.setattr(supervision, "recent_xids", lambda: ["Xid 79 of the GPU at 0:3b"])
    with pytest.raises(RunError) as caught:
        end_by(RuntimeError(words))
    assert caught.value.exit_code == 4
    assert "the GPU of process 1 failed" in caught.value.what
    assert "Xid 79" in caught.value.what
    assert "dmesg" in caught.value.fix


def end_by(error):
    """Let a block within a process group end by `error`, as training would."""
    comm = SimpleNamespace(world=World(1, 2, 1, 2, "cuda:1"), close=lambda: None)
    settings = SimpleNamespace(
        device="cuda", sync=SimpleNamespace(start_timeout="1 s", interface="")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervision, "join", lambda *_, **__: comm)
        with supervision.process_group(settings, 1.0, print):
            raise error


def test_what_the_kernel_says_about_gpus(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1;usb 1-1: new device\n"
        "4,2,2;NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.\n"
        "4,3,3;NVRM: Xid (PCI:0000:3b:00): 79, pid=78\n"
    )
    said = ["Xid 79 of the GPU at 0000:3b:00: the GPU has fallen off the bus"]
    assert recent_xids(log) == said
    assert recent_xids(tmp_path / "absent") == []


def start_group(monkeypatch, device, answer):
    store = SimpleNamespace(set_timeout=lambda timeout: None)
    found = FoundLeader(store, Network("eth0", "10.0.0.1"))
    monkeypatch.setattr(dist, "init_process_group", answer)
    module._start_group(World(0, 2, 0, 1, device), found, 9.0)


@pytest.mark.parametrize(("device", "eager"), [("cuda:1", "cuda:1"), ("cpu", None)])
def test_nccl_connects_at_once(monkeypatch, device, eager):
    asked = []
    start_group(monkeypatch, device, lambda backend, **how: asked.append((backend, how)))
    (backend, how), wanted = asked[0], torch.device(eager) if eager else None
    assert (backend == "nccl") == bool(eager)
    assert how["device_id"] == wanted
    assert how["timeout"] == timedelta(seconds=9)


def test_a_connection_that_fails_is_our_sentence(monkeypatch):
    def fail(backend, **how):
        raise dist.DistBackendError("ncclSystemError: System call failed\nmore")

    with pytest.raises(RunError, match="nccl cannot connect them over eth0") as caught:
        start_group(monkeypatch, "cuda:0", fail)
    assert "NCCL_DEBUG=INFO" in caught.value.fix


def test_a_full_gpu_is_no_trouble_of_the_network(monkeypatch):
    def fail(backend, **how):
        raise dist.DistBackendError("unhandled cuda error\nCuda failure 2 'out of memory'")

    with pytest.raises(RunError, match="NCCL finds no memory on cuda:0") as caught:
        start_group(monkeypatch, "cuda:0", fail)
    assert caught.value.exit_code == 4
    assert "nvidia-smi" in caught.value.fix


def wait_long(comm):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    backend._set_default_timeout(timedelta(seconds=2))
    try:
        with patience(comm, 60.0, usually=2.0):
            if comm.world.leads:
                time.sleep(3.5)  # longer than an exchange may take
            comm.barrier()
    finally:
        backend._set_default_timeout(timedelta(seconds=60))
    return True


@pytest.mark.ranks
def test_processes_wait_for_one_that_saves(ranks):
    assert ranks.run(wait_long) == [True] * ranks.size
