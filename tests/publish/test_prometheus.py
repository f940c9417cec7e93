"""Series of a run, as Prometheus reads them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from diagnose.made_runs import BEGAN, ended, step
from publish.conftest import tell
from unisono.errors import RunError
from unisono.live.window import now_of
from unisono.publish.prometheus import SERIES_PREFIX, serve_metrics
from unisono.publish.series import HELP, series_of
from unisono.records.follow import Follower

MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"


def scraped(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, *sorted(one.labels.values())): one.value for one in samples}


def value(found, name, *labels):
    return found[f"unisono_{name}", *sorted(map(str, labels))]


def test_a_scrape_has_all_machines_and_what_is_new(run):
    port = serve_metrics([run], "127.0.0.1", 0)
    before = scraped(port)
    assert value(before, "step", run) == 30
    assert value(before, "validation_bleu", run) == 12.5
    assert value(before, "gpu_power_watts", run, "alpha", 0) == 150.0
    assert 0 < value(before, "machine_cpu_share", run, "alpha") < 1
    shares = {
        host: sum(
            share
            for key, share in before.items()
            if key[0] == "unisono_process_time_share" and host in key
        )
        for host in ("alpha", "beta")
    }
    assert shares == {"alpha": pytest.approx(1), "beta": pytest.approx(1)}
    tell(run, step(31), ended(31, time=BEGAN + 32))
    after = scraped(port)
    assert value(after, "step", run) == 31
    assert value(after, "state", run, "finished") == 1


def test_several_runs_share_their_names(run, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    tell(tmp_path / "other", step(31))
    found = scraped(serve_metrics([run, tmp_path / "other"], "127.0.0.1", 0))
    assert value(found, "step", run) == 30
    assert value(found, "step", tmp_path / "other") == 31


def test_every_series_has_its_help(run):
    view = Follower(run).look()
    assert {series.name for series in series_of(view, now_of(view, BEGAN + 31))} <= set(HELP)


def test_a_port_in_use_is_an_error_of_ours(run):
    port = serve_metrics([run], "127.0.0.1", 0)
    with pytest.raises(RunError, match="cannot listen for scrapes"):
        serve_metrics([run], "127.0.0.1", port)


def test_rules_and_dashboard_name_series_that_exist():
    for name in ("alerts.yml", "grafana.json"):
        text = (MONITORING / name).read_text()
        used = set(re.findall(rf"\b{SERIES_PREFIX}(\w+)", text))
        assert used, name
        assert used <= set(HELP), name
    json.loads((MONITORING / "grafana.json").read_text())


def until(ask, process):
    """Wait for an answer that is not empty."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        assert process.poll() is None, "it has ended"
        try:
            if answer := ask():
                return answer
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.1)
    raise AssertionError("no answer")


@pytest.mark.ranks
def test_the_real_prometheus_reads_a_run_and_its_rules(run, tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("no program prometheus here: apt-get install prometheus")
    command = [sys.executable, "-m", "unisono", "publish", str(run), "--to", "prometheus"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen([*command, "--port", "0"], **pipes) as publisher:
        target = publisher.stdout.readline().strip().removeprefix("http://").partition("/")[0]
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(MONITORING / "alerts.yml")]
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        address = free_address()
        options = [
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
        ]
        server = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", *options]
        with subprocess.Popen(server, stderr=subprocess.DEVNULL) as prometheus:
            try:
                found = until(lambda: ask(address, "unisono_step"), prometheus)
                assert found[0]["value"][1] == "30"
                # A run whose last update is years old has stopped without a word.
                fired = until(
                    lambda: ask(address, 'ALERTS{alertname="UnisonoFailed"}'), prometheus
                )
                assert fired[0]["metric"]["run"] == str(run)
            finally:
                prometheus.send_signal(signal.SIGTERM)
                publisher.send_signal(signal.SIGINT)


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def ask(address, query):
    words = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{words}") as answer:
        return json.load(answer)["data"]["result"]
