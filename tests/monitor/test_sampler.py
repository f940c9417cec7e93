"""What the sampler sees, against what was done on purpose."""

import os
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from unisono.monitor.counters import CgroupLimits, ControlGroup, Processes
from unisono.monitor.gpus import Gpus
from unisono.monitor.sampler import DAY, HOUR, Sampler, next_look, pause
from unisono.records.monitor_events import Gpu, Sampled, from_lines, to_line
from unisono.train.supervision import gpu_name


def send_to_myself(count):
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
        with here, there:
            thread = threading.Thread(target=here.sendall, args=(bytes(count),))
            thread.start()
            left = count
            while left:
                left -= len(there.recv(65536))
            thread.join()


def test_bytes_on_an_interface_are_counted_by_its_name():
    sampler = Sampler(0, [], 1.0)
    before = sampler.look()
    send_to_myself(3_000_000)
    after = sampler.look()
    for way in ("received", "sent"):
        moved = getattr(after.interfaces["lo"], way) - getattr(before.interfaces["lo"], way)
        assert moved >= 3_000_000


def test_the_cpu_time_of_the_run_is_that_of_its_processes(own_pid):
    sampler = Sampler(0, [own_pid], 1.0)
    before, began = sampler.look(), time.process_time()
    while time.process_time() < began + 0.3:
        pass
    after = sampler.look()
    assert after.own_cpu - before.own_cpu == pytest.approx(
        time.process_time() - began, abs=0.05
    )
    assert after.own_memory > 10_000_000
    assert max(after.cores) > 0
    assert after.seconds > 0


def test_a_process_that_has_ended_keeps_its_seconds(own_pid):
    gone = 2**22 - 1  # no system counts so far
    seconds = Sampler(0, [own_pid, gone], 1.0).look().own_cpu
    assert seconds == pytest.approx(time.process_time(), abs=1.0)


def test_bytes_of_the_run_are_told_from_those_of_the_disk(own_pid, tmp_path):
    sampler = Sampler(0, [own_pid], 1.0)
    before = sampler.look()
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(3_000_000))
        file.flush()
        os.fsync(file.fileno())
    after = sampler.look()
    assert after.own_read is not None
    # A disk in memory has no blocks to be written to.
    assert after.own_written - before.own_written in (0, pytest.approx(3_000_000, rel=0.1))


def test_a_process_that_has_ended_keeps_its_bytes(tmp_path):
    write = "import os,sys; f=open(sys.argv[1],'wb'); f.write(bytes(10**6)); f.flush();"
    code = write + "print('done',flush=True); sys.stdin.readline()"
    command = [sys.executable, "-c", code, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        processes = Processes([child.pid])
        child.stdout.readline()
        before = processes.look()
        child.communicate(b"\n")
    after = processes.look()
    assert (after.read, after.written) == (before.read, before.written)
    assert (before.resident > 0, after.resident) == (True, 0)


def test_where_the_system_does_not_say_there_are_no_bytes(own_pid, monkeypatch):
    def refuse(process):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "io_counters", refuse)
    look = Sampler(0, [own_pid], 1.0).look()
    assert (look.own_read, look.own_written) == (None, None)
    assert look.own_memory > 0


def test_the_machine_is_introduced_with_its_interfaces(own_pid):
    machine = Sampler(2, [own_pid], 0.5).introduce()
    assert (machine.rank, machine.pids, machine.every) == (2, [own_pid], 0.5)
    assert "127.0.0.1/8" in machine.interfaces["lo"].addresses
    assert machine.memory > 0 < machine.cores


@pytest.fixture
def own_pid():
    return os.getpid()


def test_it_looks_less_often_as_time_goes_by_and_never_catches_up():
    assert [pause(1.0, at) for at in (0.0, HOUR - 1, HOUR, DAY - 1, DAY)] == [1, 1, 5, 5, 30]
    assert next_look(10.0, 1.0, 0.0, now=10.2) == 11.0
    assert next_look(10.0, 1.0, 0.0, now=25.0) == 25.0


def test_a_line_comes_back_as_it_was_and_strange_ones_are_passed_over():
    event = Sampled(time=1.5, seconds=1.0, cores=[0.5, 1.0], gpus=[Gpu(index=0, watts=41.0)])
    newer = b'{"kind":"sampled","time":2.0,"cores":[],"fans":3}'
    lines = [to_line(event), b'{"kind":"dreamt","time":1}', b'{"kind":"sam', newer]
    assert list(from_lines(lines)) == [event, Sampled(time=2.0)]


def test_what_is_not_known_is_not_written():
    assert to_line(Sampled(time=1.0)) == b'{"kind":"sampled","time":1.0}'
    assert b"watts" not in to_line(Sampled(time=1.0, gpus=[Gpu(index=0, utilisation=1.0)]))


# --- GPUs -------------------------------------------------------------------------------


class Nvml:
    """The part of NVIDIA's library that is asked, for a card that waits at 41 W."""

    NVML_CLOCK_SM = 1
    uuids = ("GPU-a", "GPU-b", "GPU-8932f937-d72c", "GPU-d")

    class NVMLError(Exception):
        pass

    def __init__(self, cards=1, knows_power=True):
        self._cards, self._knows_power = cards, knows_power

    def nvmlInit(self):  # noqa: N802
        if not self._cards:
            raise self.NVMLError("driver not loaded")

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self._cards

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        return number

    def nvmlDeviceGetHandleByUUID(self, name):  # noqa: N802
        if name not in self.uuids:
            raise self.NVMLError("not found")
        return self.uuids.index(name)

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return self.uuids[handle]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return "Tesla V100" if handle == 0 else f"Tesla V100, number {handle}"

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return type("Rates", (), {"gpu": 100, "memory": 3})

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return type("Memory", (), {"used": 9 * 10**9, "total": 16 * 10**9})

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if not self._knows_power:
            raise self.NVMLError("not supported")
        return 41_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):  # noqa: N802
        return 250_000

    def nvmlDeviceGetClockInfo(self, handle, clock):  # noqa: N802
        return 1380

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        memory = {7: 4 * 10**9, 8: 3 * 10**9, 900: None}
        return [type("P", (), {"pid": p, "usedGpuMemory": m}) for p, m in memory.items()]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return 0x1 | 0x4 | 0x20


def test_a_gpu_is_told_with_power_and_its_limit():
    gpus = Gpus(Nvml())
    assert gpus.names() == ["Tesla V100"]
    (card,) = gpus.look()
    assert (card.utilisation, card.watts, card.limit_watts) == (1.0, 41.5, 250.0)
    assert (card.memory_used, card.memory_total) == (9 * 10**9, 16 * 10**9)
    assert card.throttled == ["power limit", "heat"]
    assert card.most_mhz is None  # this library has no such question


@pytest.mark.parametrize(
    ("pids", "shares"),
    [
        ([7, 8], (7 * 10**9, 1)),
        ([8, 12], (3 * 10**9, 2)),
        ([7, 900], (None, 1)),
        ([12], (None, None)),
        ([], (None, None)),
    ],
    ids=["ours and another", "one of ours", "memory not told", "counted otherwise", "none"],
)
def test_a_gpu_tells_what_of_it_is_the_runs_own(pids, shares):
    (card,) = Gpus(Nvml()).look(pids)
    assert (card.own_memory, card.others) == shares


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        ("3,1", [3, 1]),
        ("GPU-b", [1]),
        ("GPU-8932f937,1", [2, 1]),
        ("", []),
        (None, [0, 1, 2, 3]),
    ],
)
def test_gpus_are_counted_as_cuda_counts_them(monkeypatch, visible, numbers):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = Gpus(Nvml(cards=4))
    assert [gpu.index for gpu in gpus.look()] == list(range(len(numbers)))
    told = [f"Tesla V100, number {number}" if number else "Tesla V100" for number in numbers]
    assert gpus.names() == told


def test_a_gpu_that_cannot_be_found_costs_no_other():
    gpus = Gpus(Nvml(cards=4), visible="GPU-unheard-of,3")
    assert [gpu.index for gpu in gpus.look()] == gpus.numbers == [1]
    assert gpus.names() == ["Tesla V100, number 3"]


@pytest.mark.parametrize(
    ("device", "visible", "name"),
    [
        ("cuda:1", None, "1"),
        ("cuda:1", "4,GPU-b", "GPU-b"),
        ("cuda:0", "3", "3"),  # under Slurm, each process may see but its own
        ("cuda:2", "3", ""),
        ("cpu", "3", ""),
    ],
)
def test_the_gpu_of_a_process_is_known_by_what_it_sees(device, visible, name):
    assert gpu_name(device, visible) == name


def test_what_a_gpu_does_not_tell_is_left_out():
    (card,) = Gpus(Nvml(knows_power=False)).look()
    assert card.watts is None
    assert card.utilisation == 1.0


@pytest.mark.parametrize("library", [None, Nvml(cards=0)], ids=["no library", "no driver"])
def test_without_a_gpu_there_is_nothing_to_tell(library):
    gpus = Gpus(library)
    assert gpus.look() == []
    assert gpus.names() == []


# --- control groups ---------------------------------------------------------------------


def test_the_tightest_limit_of_a_container_counts(tmp_path):
    inner = tmp_path / "fs" / "pod" / "box"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "fs" / "memory.max").write_text("5000\n")
    (inner / "cpu.stat").write_text("usage_usec 10\nthrottled_usec 2500000\n")
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("900\n")
    (inner.parent / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    (tmp_path / "self").write_text("0::/pod/box\n")
    assert ControlGroup(tmp_path / "fs", tmp_path / "self").look() == CgroupLimits(
        1000, 600, 2.5
    )


def test_without_control_groups_nothing_is_limited(tmp_path):
    assert ControlGroup(tmp_path, tmp_path / "none").look() == CgroupLimits()
