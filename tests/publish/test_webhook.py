"""Alerts that reach a web address: each once, in their order, later if need be."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from diagnose.made_runs import BEGAN, ended, start, step
from publish.conftest import tell
from unisono.cli import unisono
from unisono.diagnose.case import LEAST_SILENCE
from unisono.errors import ConfigError, RunError
from unisono.publish import retry
from unisono.publish.sent import SENT_DIRECTORY
from unisono.publish.webhook import Webhook
from unisono.records.events import Found, Lost, Warned


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(retry, "LONGEST_PAUSE_SECONDS", 0.0)


def warn(run, *texts):
    for number, text in enumerate(texts):
        tell(run, Warned(time=BEGAN + 31 + number, step=30, message=text))


def summaries(receiver):
    return [body["summary"] for body in receiver.taken]


def test_each_alert_is_sent_once_also_by_a_second_sender(run, receiver):
    warn(run, "one", "two")
    hook = Webhook(run, receiver.address)
    assert hook.look(BEGAN + 40) == ("running", [])
    hook.look(BEGAN + 40)
    tell(run, Warned(time=BEGAN + 41, step=30, message="three"))
    hook.look(BEGAN + 42)
    hook.close("running")
    Webhook(run, receiver.address).look(BEGAN + 42)
    assert summaries(receiver) == ["one", "two", "three"]
    first = receiver.taken[0]
    assert (first["kind"], first["severity"], first["step"]) == ("warning", "warning", 30)
    assert first["text"].endswith(": one")


@pytest.mark.parametrize("answer", [500, 404, 302])
def test_what_is_refused_comes_later_and_in_order(run, receiver, answer):
    warn(run, "one", "two")
    receiver.answers = [200, answer]
    hook = Webhook(run, receiver.address)
    _, waiting = hook.look(BEGAN + 40)
    assert [alert.summary for alert in waiting] == ["two"]
    assert str(answer) in hook.retry.refused
    assert receiver.seen == 2  # no redirection was followed
    hook.retry._not_before = 0.0
    assert hook.look(BEGAN + 40) == ("running", [])
    assert summaries(receiver) == ["one", "two"]


def test_a_dead_address_costs_one_try_for_each_pause(run, receiver, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 1000.0)
    monkeypatch.setattr(retry, "LONGEST_PAUSE_SECONDS", 1000.0)
    warn(run, "one")
    receiver.answers = [500]
    hook = Webhook(run, receiver.address)
    for _ in range(5):
        hook.look(BEGAN + 40)
    assert receiver.seen == 1


def test_the_token_of_the_address_is_written_nowhere(run, receiver):
    warn(run, "one")
    Webhook(run, receiver.address).look(BEGAN + 40)
    kept = list((run / SENT_DIRECTORY).iterdir())
    assert len(kept) == 2
    assert not any(path.stat().st_mode & 0o077 for path in kept)
    for path in run.rglob("*"):
        assert path.is_dir() or b"verysecret" not in path.read_bytes()
    assert "verysecret" not in str(receiver.taken)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"alerts": 3}', b"[]"])
def test_a_damaged_list_of_what_was_sent_means_that_nothing_was(run, receiver, damage):
    warn(run, "one")
    hook = Webhook(run, receiver.address)
    hook.close("running")
    hook._sent._path.write_bytes(damage)
    Webhook(run, receiver.address).look(BEGAN + 40)
    assert summaries(receiver) == ["one"]


def test_one_sender_at_a_time(run, receiver):
    hook = Webhook(run, receiver.address)
    with pytest.raises(ConfigError, match="another `unisono publish`"):
        Webhook(run, receiver.address)
    hook.close("running")
    Webhook(run, receiver.address).close("running")


@pytest.mark.parametrize(
    "answer",
    [
        *(b"hello\r\n", b"\xff\xfe\r\n", b"HTTP/1.1 9999 x\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 301 x\r\nLocation: http://[::1\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_http_is_said_and_the_token_is_not(run, answer):
    warn(run, "one")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/hook?token=verysecret"

        def answer_once():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        webhook = Webhook(run, address)
        webhook.look(BEGAN + 40)
        thread.join()
    assert "HTTP" in webhook.retry.refused
    assert "verysecret" not in webhook.retry.refused


@pytest.mark.parametrize(
    "address",
    [
        *("", "file:///etc/passwd", "hooks", "http://", "http://[::1", "http://host:port/"),
        *("http://ä..ö/", f"http://{'a' * 70}.org/", "http://host/\x1b[2J", "http://a b/"),
    ],
)
def test_an_address_that_is_none_is_refused(run, address):
    with pytest.raises(ConfigError, match="not an http or https address"):
        Webhook(run, address)


def call(run, file, *more):
    arguments = ["publish", str(run), "--to", "webhook", *more]
    if file is not None:
        arguments += ["--address-file", str(file)]
    return unisono.main(arguments, standalone_mode=False)


def test_the_command_ends_with_the_run_and_says_what_was_not_taken(run, receiver, tmp_path):
    tell(run, ended(30, time=BEGAN + 31))
    file = tmp_path / "address"
    file.write_text(receiver.address + "\n")
    call(run, file)
    assert [body["kind"] for body in receiver.taken] == ["ended"]
    shutil.rmtree(run / SENT_DIRECTORY)
    receiver.answers = [503] * 100
    with pytest.raises(RunError, match="1 messages were not taken: it answered with 503"):
        call(run, file, "--linger", "0")


@pytest.mark.ranks
def test_a_loss_a_finding_and_a_stall_arrive_within_fifteen_seconds(tmp_path, receiver):
    run, file = tmp_path / "run", tmp_path / "address"
    (run / "events").mkdir(parents=True)
    (run / "config.toml").write_text("[train]\nmax_steps = 200\n")
    file.write_text(receiver.address)
    began = time.time() - 40
    # This process plays the leading one: it lives, and makes no updates.
    here = {"host": os.uname().nodename, "pid": os.getpid()}
    tell(run, msgspec.structs.replace(start(time=began), **here))
    tell(run, Warned(time=began, step=0, message="the disk is nearly full"))
    words = ["publish", str(run), "--to", "webhook", "--address-file", str(file)]
    with subprocess.Popen([sys.executable, "-m", "unisono", *words]) as publisher:
        wait_for(receiver, "warning", publisher)
        # Twenty updates of a second; after twenty seconds without one, it stands still.
        last = time.time() - LEAST_SILENCE + 1
        tell(run, *(step(n, time=last - 20 + n) for n in range(1, 21)))
        wait_for(receiver, "stalled", publisher)
        now = time.time()
        tell(run, Found(time=now, step=20, id="slow_disk", summary="The disk is slow."))
        tell(run, Lost(time=now, step=20, rank=1, host="beta", pid=7, how="process died"))
        known = {"stalled": last + LEAST_SILENCE, "finding": now, "lost": now}
        for kind in known:
            wait_for(receiver, kind, publisher)
        publisher.send_signal(signal.SIGINT)
    late = {kind: receiver.times[kind] - moment for kind, moment in known.items()}
    print("seconds until an alert arrived:", {k: round(v, 1) for k, v in late.items()})
    assert all(-0.1 <= seconds <= 15 for seconds in late.values()), late


def wait_for(receiver, kind, process):
    while kind not in receiver.times:
        assert process.poll() is None, "it has ended"
        time.sleep(0.05)


def test_without_an_address_or_a_run_there_is_nothing_to_publish(run, tmp_path):
    with pytest.raises(ConfigError, match="needs an address"):
        call(run, None)
    with pytest.raises(ConfigError, match="not the directory of a run"):
        call(tmp_path / "none", None)
