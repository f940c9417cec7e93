"""Records of a machine that wants to harm the one that fetches them."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from unisono.launch import error_output, ssh_pipe
from unisono.launch.probe_client import UnreachableError
from unisono.launch.ssh import Ssh
from unisono.launch.stream import record_store
from unisono.launch.stream.client import RemoteMachine, RemoteRun, StreamClient
from unisono.launch.stream.detached import WrapperState, signal_wrapper, wrapper_file
from unisono.launch.stream.messages import ListRecords, RecordList
from unisono.launch.stream.record_store import RecordStore
from unisono.launch.stream.run_stream import RunStream
from unisono.lock import lock

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(300)]

HOSTILE = Path(__file__).with_name("hostile_server.py")
HONEST = "events/rank-0000.jsonl"


class WithoutSsh(RemoteRun):
    """Machines whose record servers run here, as ssh would run them there."""

    def command(self, host):
        machine = next(one for one in self.machines if one.host == host)
        return tuple(machine.python.split())


@pytest.fixture
def honest(tmp_path):
    """The run directory of a machine as it should be."""
    events = tmp_path / "there" / HONEST
    events.parent.mkdir(parents=True)
    events.write_bytes(b"one\ntwo\n")
    return events


def both(tmp_path, how):
    """An honest machine and a hostile one, in that order."""
    good = f"{sys.executable} -m unisono.launch.stream.server"
    bad = f"{sys.executable} {HOSTILE} {how}"
    machines = (RemoteMachine("good", good, ""), RemoteMachine("bad", bad, ""))
    return WithoutSsh(Ssh(""), str(tmp_path / "there"), machines)


class Fetched:
    """What came here of both, and what was told meanwhile."""

    def __init__(self, tmp_path, how):
        self.told, self.here = [], tmp_path / "here"
        self._stream = RunStream(
            both(tmp_path, how), self.here, self.told.append, checkpoints=True
        )

    def until(self, true, gets=b"one\ntwo\n"):
        self._stream.start()
        honest = self.here / HONEST
        while not true(self) or (honest.read_bytes() if honest.exists() else b"") != gets:
            time.sleep(0.05)
        self._stream.finish(2.0)
        return self

    def says(self, words):
        return any(words in text for text in self.told)


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_a_file_that_never_ends_leaves_room_on_the_disk(tmp_path, honest, monkeypatch):
    monkeypatch.setattr(record_store, "SPARE_BYTES", 2 * shutil.disk_usage(tmp_path).free)
    fetched = Fetched(tmp_path, "grows")
    fetched.until(lambda it: it.says("the records of bad wait: no room here"), gets=b"")
    assert size_of(fetched.here) < 100_000


@pytest.mark.parametrize("how", ["manifest", "checkpoint"])
def test_a_checkpoint_that_never_ends_is_dropped(tmp_path, honest, how, monkeypatch):
    seen = []
    remove = shutil.rmtree
    monkeypatch.setattr(
        shutil, "rmtree", lambda path, **how: (seen.append(size_of(path)), remove(path, **how))
    )
    fetched = Fetched(tmp_path, how)
    # Made by an honest leading machine, so that checkpoints are fetched from it.
    fetched._stream._store.replace("bad0" * 8, "status.json", 1, b"{}")
    fetched.until(lambda it: seen)
    assert 0 <= max(seen) < 2_000_000
    assert not list((fetched.here / "checkpoints").glob("step-*"))


@pytest.mark.parametrize("how", ["numbers", "start"])
def test_numbers_beyond_all_bounds_are_refused(tmp_path, honest, how):
    Fetched(tmp_path, how).until(lambda it: it.says("answers what nobody asked"))


def test_names_outside_of_the_run_and_of_other_nodes_do_not_come(tmp_path, honest):
    for how in ("outside", "node"):
        fetched = Fetched(tmp_path, how)
        fetched.until(lambda it: it._stream.client_of("bad") is not None)
        assert not list(tmp_path.rglob("*outside*"))
        assert not list(fetched.here.glob("stream/node-*"))
        shutil.rmtree(fetched.here)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        *(("errors", "not answered"), ("identity", "not answered")),
        *(("slow", "too slowly"), ("deaf", "ended with")),
        ("replays", "prints too much"),
    ],
)
def test_who_never_answers_is_let_go(tmp_path, honest, how, words, monkeypatch):
    monkeypatch.setattr(ssh_pipe, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(error_output, "EXIT_SECONDS", 1.0)
    client = StreamClient(both(tmp_path, how), "bad", create=False)
    with pytest.raises(UnreachableError, match=words), client:
        pass
    assert len(client._pipe._errors._kept) <= error_output.KEPT_BYTES


def test_records_travel_on_the_pipes_of_ssh_alone(tmp_path, honest):
    """So ssh authenticates every byte: there is nothing else that anybody could connect to."""
    with StreamClient(both(tmp_path, ""), "good", create=False) as client:
        assert client.ask(ListRecords(), RecordList).entries
        server = psutil.Process(client._pipe._process.pid)
        assert not server.children()
        assert open_sockets(server.pid) == []
    assert not server.is_running()


def open_sockets(pid):
    handles = Path(f"/proc/{pid}/fd").iterdir()
    return [handle.name for handle in handles if os.readlink(handle).startswith("socket:")]


def test_records_come_by_the_users_own_ssh(tmp_path):
    """It asks for no password, forwards nothing, and leaves the keys of hosts to the user."""
    machine = RemoteMachine("a", "python3", "/data")
    command = RemoteRun(Ssh(), "runs/x", (machine,)).command("a")
    options = set(command[: command.index("--")])
    assert command[0] == "ssh"
    assert {"-T", "-a", "-x", "BatchMode=yes", "ClearAllForwardings=yes"} <= options
    assert "HostKey" not in " ".join(options) and "KnownHosts" not in " ".join(options)


def test_only_the_holder_of_the_lock_gets_a_signal(tmp_path):
    RecordStore(tmp_path)
    path = wrapper_file(tmp_path, 0, "lock")
    held = os.open(path, os.O_RDWR | os.O_CREAT)
    lock(held)
    other = subprocess.Popen(["sleep", "1000"])
    holder = subprocess.Popen(["sleep", "1000"], pass_fds=[held])
    try:
        # 0 would be our process group, -1 all processes of this user.
        for pid, is_asked in ((0, False), (-1, False), (other.pid, False), (holder.pid, True)):
            state = WrapperState(pid=pid, host=os.uname().nodename)
            wrapper_file(tmp_path, 0, "json").write_bytes(msgspec.json.encode(state))
            assert signal_wrapper(tmp_path, 0, kill=False) is is_asked
        assert holder.wait() == -15
        assert psutil.Process(other.pid).is_running()
    finally:
        for process in (other, holder):
            process.kill()
            process.wait()
        os.close(held)
