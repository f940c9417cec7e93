"""Models that are replaced or die while a server runs, and servers that stop."""

import os
import shutil
import signal
import threading
import time

import psutil
import pytest

from export.test_export import exported
from serve.running import RunningServer
from support.random_bundles import made_bundle
from unisono.bundle.reader import ensemble, open_bundle
from unisono.models.cpu_bf16 import has_bf16

pytestmark = pytest.mark.ranks


def replace_bundle(old, new):
    """Put one directory in place of another, as `unisono average` and `mv` do."""
    os.rename(old, f"{old}.old")
    os.rename(new, old)


def worker_of(server):
    children = psutil.Process(server.process.pid).children()
    return next(child for child in children if "unisono.serve.worker" in child.cmdline())


def test_a_replaced_bundle_is_taken_and_the_old_one_finishes(tmp_path, bundle):
    served = tmp_path / "served"
    shutil.copytree(bundle.path, served)
    other = made_bundle(tmp_path / "other", seed=9)
    [before] = bundle.translator().translate(["to be"])
    [after] = other.translator().translate(["to be"])
    assert before != after
    long, answers = "\n".join(f"line {n}" for n in range(500)), []
    with RunningServer(served) as server:
        asking = threading.Thread(target=lambda: answers.append(server.translate(long)))
        asking.start()
        assert server.translate("to be") == before
        replace_bundle(served, tmp_path / "other")
        assert "new requests get the model of step 1" in server.wait_for("was replaced")
        assert server.translate("to be") == after
        asking.join()
        old = open_bundle(bundle.path).translator().translate(["line 0", "line 499"])
        assert [answers[0].split("\n")[n] for n in (0, 499)] == old
        assert server.metric("unisono_models_replaced_total") == 1
        assert server.stop() == 0


def test_a_damaged_bundle_is_not_taken_and_a_mended_one_is(tmp_path, bundle):
    served = tmp_path / "served"
    shutil.copytree(bundle.path, served)
    with RunningServer(served) as server:
        expected = server.translate("to be")
        weights = served / "model.safetensors"
        good = weights.read_bytes()
        # In place, where the workers may have the file in their memory.
        with weights.open("r+b") as file:
            file.write(bytes(len(good)))
            file.truncate(1000)
        (served / "manifest.json").touch()
        told = server.wait_for("the new models are not served")
        assert "damaged" in told
        assert server.translate("to be") == expected
        weights.write_bytes(good)
        (served / "manifest.json").touch()
        server.wait_for("was replaced")
        assert server.translate("to be") == expected


def test_a_worker_that_dies_is_replaced(bundle):
    with RunningServer(bundle.path) as server:
        expected = server.translate("to be")
        worker_of(server).kill()
        server.wait_for("a worker died")
        for _ in range(100):
            status, answer = server.post("/translate", q="to be", source="en", target="de")
            if status == 200:
                break
            assert status == 500
            time.sleep(0.2)
        assert answer["translatedText"] == expected
        assert server.metric("unisono_workers_lost_total") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_stops_answers_what_it_accepted(bundle, number):
    long, answers = "\n".join(f"line {n}" for n in range(300)), []
    with RunningServer(bundle.path) as server:
        asking = threading.Thread(target=lambda: answers.append(server.translate(long)))
        asking.start()
        while not server.metric("unisono_waiting_sentences"):
            pass
        family = psutil.Process(server.process.pid).children(recursive=True)
        assert server.stop(number) == 0
        asking.join()
        assert len(answers[0].split("\n")) == 300
        assert "everything that was accepted has been answered" in server.wait_for("stopped")
        assert not psutil.wait_procs(family)[1]


def test_workers_die_with_a_killed_server(bundle):
    with RunningServer(bundle.path, "--workers", "2") as server:
        family = psutil.Process(server.process.pid).children(recursive=True)
        assert len(family) == 2
        server.process.kill()
        assert not psutil.wait_procs(family)[1]


def test_exports_are_served_by_their_engine(tmp_path, bundle, english_to_german):
    pytest.importorskip("ctranslate2")
    exported(bundle, tmp_path / "export")
    with RunningServer(tmp_path / "export", "--engine", "ctranslate2") as server:
        lines = ["to be", "or not to be"]
        assert server.translate(lines) == english_to_german(lines)
        assert server.stop() == 0


def test_the_precision_reaches_the_workers_or_is_refused(tmp_path, bundle):
    if not has_bf16():
        with RunningServer(bundle.path, "--precision", "bf16", wait=False) as server:
            assert "this one has none" in server.wait_for("error")
            assert server.process.wait() == 2
        return
    lines = [f"to be {a} or {b}" for a in range(8) for b in range(8)]
    halves = ensemble([bundle], precision="bf16").translate(lines)
    assert halves != bundle.translator().translate(lines)  # nearly the same
    with RunningServer(bundle.path, "--precision", "bf16") as server:
        assert server.translate(lines) == halves


def test_an_export_has_the_precision_that_it_was_made_with(tmp_path, bundle):
    pytest.importorskip("ctranslate2")
    exported(bundle, tmp_path / "export")
    words = (tmp_path / "export", "--engine", "ctranslate2", "--precision", "auto")
    with RunningServer(*words, wait=False) as server:
        assert "when it was made" in server.wait_for("error")
        assert server.process.wait() == 2


def test_a_replaced_export_is_taken_and_a_damaged_one_is_not(tmp_path, bundle):
    pytest.importorskip("ctranslate2")
    other = made_bundle(tmp_path / "other", seed=9)
    served, new = tmp_path / "served", tmp_path / "new"
    exported(bundle, served)
    exported(other, new)
    [before] = bundle.translator().translate(["to be"])
    [after] = other.translator().translate(["to be"])
    assert before != after
    with RunningServer(served, "--engine", "ctranslate2") as server:
        assert server.translate("to be") == before
        replace_bundle(served, new)
        server.wait_for("was replaced")
        assert server.translate("to be") == after
        model = served / "model.bin"
        good = model.read_bytes()
        model.write_bytes(good[:1000])
        (served / "unisono.json").touch()
        assert "damaged" in server.wait_for("the new models are not served")
        assert server.translate("to be") == after
        assert server.metric("unisono_models_replaced_total") == 1
        assert server.stop() == 0
