"""Points and alerts of a run in the trackers that people use: real servers, each point once."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest

from diagnose.made_runs import BEGAN, ended, step
from publish.conftest import tell
from unisono.cli import unisono
from unisono.errors import ConfigError, RunError
from unisono.publish import retry
from unisono.publish.mlflow_server import MlflowServer
from unisono.publish.tracker import TrackedRun, flat
from unisono.publish.trackio_server import TrackioServer
from unisono.records.events import Found, Lost

TOKEN = "t0ken-of-somebody"
LOST = Lost(time=BEGAN + 33, step=30, rank=1, host="beta", pid=7, how="process died")
FOUND = Found(
    time=BEGAN + 32,
    step=30,
    id="slow_disk",
    about="alpha",
    summary="The disk is slow.",
    advice="Buy another.",
    severity="warning",
)


@contextmanager
def serving(command, port, **environment):
    """A server that answers at `port` until the block ends."""
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
        start_new_session=True,
    ) as server:
        try:
            while True:
                assert server.poll() is None, "the server has ended"
                try:
                    asked(port, "")
                    break
                except urllib.error.HTTPError:
                    break
                except (urllib.error.URLError, ConnectionError, TimeoutError):
                    time.sleep(0.1)
            yield server
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def asked(port, what, body=None, headers=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{what}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        data = answer.read()
    return json.loads(data) if data[:1] in (b"{", b"[") else data


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def publish(run, to, *more):
    words = ["publish", str(run), "--to", to, "--project", "nightly", *map(str, more)]
    return unisono.main(words, standalone_mode=False)


def mlflow_at(port, place):
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", 1]
    store = f"sqlite:///{place / 'mlflow.db'}"
    command += ["--backend-store-uri", store, "--default-artifact-root", place / "artifacts"]
    return serving(command, port, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")


@pytest.mark.ranks
def test_a_real_mlflow_has_all_machines_each_point_once_and_the_alerts(run, tmp_path):
    if shutil.which("mlflow") is None:
        pytest.skip("no MLflow on the PATH: pip install mlflow, in an environment of its own")
    port = free_port()
    server = ["--server", f"http://127.0.0.1:{port}"]
    # Nobody is there: the run is none the worse, and hears of it.
    tell(run, FOUND, LOST, ended(30, time=BEGAN + 34))
    with pytest.raises(RunError, match="refused"):
        publish(run, "mlflow", *server, "--linger", "0")
    with mlflow_at(port, tmp_path):
        publish(run, "mlflow", *server)
        # It goes on after a stop: a second call sends what is new to the same run.
        tell(run, step(31, time=BEGAN + 40), ended(31, time=BEGAN + 41))
        publish(run, "mlflow", *server)
        api = "api/2.0/mlflow/"
        name = urllib.parse.urlencode({"experiment_name": "nightly"})
        found = asked(port, f"{api}experiments/get-by-name?{name}")["experiment"]
        wanted = {"experiment_ids": [found["experiment_id"]]}
        (there,) = asked(port, f"{api}runs/search", wanted)["runs"]
        assert there["info"]["run_name"] == "run"
        assert there["info"]["status"] == "FINISHED"
        parameters = {one["key"]: one["value"] for one in there["data"]["params"]}
        assert parameters["train.max_steps"] == "200"
        tags = {one["key"]: one["value"] for one in there["data"]["tags"]}
        assert (
            "**finding** at step 30: The disk is slow. Buy another."
            in tags["mlflow.note.content"]
        )
        assert "rank 1 on beta" in tags["mlflow.note.content"]
        metrics = {one["key"] for one in there["data"]["metrics"]}
        assert {"training/loss", "validation/bleu", "rank_1/compute_share"} <= metrics
        assert "system/alpha/gpu_0_power_watts" in metrics
        history = urllib.parse.urlencode(
            {"run_id": there["info"]["run_id"], "metric_key": "training/loss"}
        )
        points = asked(port, f"{api}metrics/get-history?{history}")["metrics"]
        assert [point["step"] for point in points] == list(range(1, 32))


@pytest.mark.ranks
def test_a_real_trackio_has_all_machines_each_point_once_and_the_alerts(run, tmp_path):
    if shutil.which("trackio") is None:
        pytest.skip("no Trackio on the PATH: pip install trackio, in an environment of its own")
    port = free_port()
    tell(run, FOUND, LOST, ended(30, time=BEGAN + 34))
    places = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HOME": str(tmp_path / "hf")}
    tokens = {"TRACKIO_WRITE_TOKEN": TOKEN, "GRADIO_SERVER_PORT": str(port)}
    with serving(["trackio", "show", "--host", "127.0.0.1"], port, **places, **tokens):
        sender = TrackedRun(run, "trackio", trackio(port, TRACKIO_WRITE_TOKEN="wrong"))
        _, waiting = sender.look(BEGAN + 40)
        assert waiting
        assert "is TRACKIO_WRITE_TOKEN its write token" in sender.retry.refused
        sender.close("finished")
        sender = TrackedRun(run, "trackio", trackio(port, TRACKIO_WRITE_TOKEN=TOKEN))
        assert sender.look(BEGAN + 40)[1] == []
        # What was sent and not remembered comes again, and counts once.
        sender._feed._offsets = {}
        assert sender.look(BEGAN + 40)[1] == []
        sender.close("finished")

        def read(name, **arguments):
            body = {"args": [], "kwargs": {"project": "nightly", **arguments}}
            return asked(port, f"api/{name}", body, {"x-trackio-write-token": TOKEN})["data"]

        losses = read("get_metric_values", run="run", metric_name="training/loss")
        assert sorted(one["step"] for one in losses) == list(range(1, 31))
        alerts = {one["title"]: one for one in read("get_alerts")}
        assert alerts["finding"]["text"] == "The disk is slow. Buy another."
        assert alerts["finding"]["level"] == "warn"
        assert alerts["lost"]["level"] == "error"
        machines = json.dumps(read("get_system_logs", run="run"))
        assert "machine/alpha/gpu_0_power_watts" in machines


def trackio(port, **variables):
    return TrackioServer(f"http://127.0.0.1:{port}", "nightly", variables)


@pytest.mark.ranks
def test_the_files_of_wandb_have_all_machines_and_the_alerts(run, tmp_path):
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("no wandb here: pip install wandb")
    tell(run, FOUND, ended(30, time=BEGAN + 34))
    words = [sys.executable, "-m", "unisono", "publish", str(run), "--to", "wandb"]
    environment = {**os.environ, "WANDB_API_KEY": TOKEN, "HOME": str(tmp_path)}
    for _ in range(2):  # the second has nothing new
        subprocess.run(words, check=True, env=environment)
    (file,) = (run / "published" / "wandb").glob("offline-run-*/*.wandb")
    history, alerts = wandb_records(file)
    losses = [row for row in history if "training/loss" in row]
    assert [row["update"] for row in losses] == list(range(1, 31))
    watts = [row for row in history if "machine/alpha/gpu_0_power_watts" in row]
    assert [row["second"] for row in watts] == [10, 20, 29]
    assert ("finding", "The disk is slow. Buy another.") in alerts
    for path in run.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()


def wandb_records(path):
    """Return the rows and alerts in a file of wandb."""
    from wandb.proto import wandb_internal_pb2

    rows, alerts = [], []
    for data in wandb_file(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append(
                {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
            )
        if record.WhichOneof("record_type") == "alert":
            alerts.append((record.alert.title, record.alert.text))
    return rows, alerts


def wandb_file(data):
    """Yield the records of a file: LevelDB's log format behind a header of 7 bytes."""
    assert data[:4] == b":W&B"
    at, whole = 7, b""
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a record, or the last part of one
            yield whole
            whole = b""


def test_a_dead_tracker_costs_one_try_for_each_pause_and_gets_all_later(
    run, receiver, monkeypatch
):
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 1000.0)
    tell(run, LOST)
    receiver.answers = [503]
    sender = TrackedRun(run, "trackio", trackio(receiver.server_port))
    for _ in range(5):
        state, waiting = sender.look(BEGAN + 40)
        assert waiting
    assert receiver.seen == 1
    sender.retry._not_before = 0.0
    assert sender.look(BEGAN + 40)[1] == []
    sent = [entry for body in receiver.taken for entry in body["kwargs"].get("logs", [])]
    assert len({entry["log_id"] for entry in sent}) == len(sent) > 30
    assert receiver.taken[0]["kwargs"]["alerts"][0]["title"] == "lost"  # alerts come first


@pytest.mark.parametrize("make", [MlflowServer, TrackioServer])
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:5000",
        "file:///tmp/mlruns",
        f"http://somebody:{TOKEN}@example.org",
        f"http://example.org/?write_token={TOKEN}",
    ],
)
def test_an_address_with_a_secret_or_none_at_all_is_refused(make, address):
    with pytest.raises(ConfigError) as caught:
        make(address, "nightly", {})
    assert TOKEN not in str(caught.value)


def test_tokens_of_the_environment_are_sent_and_stored_nowhere(run, receiver):
    address = f"http://127.0.0.1:{receiver.server_port}"
    variables = {"TRACKIO_SERVER_URL": f"{address}/?write_token={TOKEN}"}
    sender = TrackedRun(
        run, "trackio", TrackioServer(variables["TRACKIO_SERVER_URL"], "nightly", variables)
    )
    sender.look(BEGAN + 40)
    assert {headers["X-Trackio-Write-Token"] for headers in receiver.headers} == {TOKEN}
    assert TOKEN not in str(receiver.taken)
    for path in run.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()


def test_without_a_server_there_is_nothing_to_publish_to(run, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigError, match="needs the address of its server"):
        publish(run, "mlflow")


def test_settings_become_one_table():
    assert flat({"seed": 1, "train": {"max_steps": 3, "on": True}, "run": "a"}) == {
        "seed": "1",
        "train.max_steps": "3",
        "train.on": "true",
        "run": "a",
    }
