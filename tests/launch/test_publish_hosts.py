"""`publish` beside `launch --hosts`: all machines of a run that goes on, and a lost one."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.ssh import SshLab
from support.tiny import tiny_settings
from unisono.config.load import to_toml

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.long(minutes=1),
    pytest.mark.usefixtures("able"),
    pytest.mark.timeout(900),
]
UNISONO = [sys.executable, "-m", "unisono"]
TESTS = Path(__file__).parents[1]
LAPTOP = 2
SCRAPE = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"


@pytest.fixture
def home(corpus_home, tmp_path):
    """A config whose run is below `runs`, of which each machine has its own."""
    for name in ("runs", *(f"disk{node}" for node in range(3))):
        (tmp_path / name).mkdir()
    tables = {"train": {"max_steps": 1_000_000}, "monitor": {"on": True}}
    settings = tiny_settings(corpus_home, run=str(tmp_path / "runs" / "run"), **tables)
    (tmp_path / "my.toml").write_text(to_toml(settings))
    return tmp_path


def until(happened, *jobs):
    """Wait until something is there; return it."""
    deadline = time.monotonic() + 600
    while not (found := happened()):
        assert time.monotonic() < deadline
        for job in jobs:
            assert job.poll() is None, job.communicate()
        time.sleep(0.1)
    return found


def test_all_machines_are_published_while_a_run_goes_on_and_a_lost_one_is_said(home):
    here, hooked = home / f"disk{LAPTOP}" / "run", home / "hooked"
    with SshLab(home, 3) as lab:
        for node in range(3):
            mount = ["mount", "--bind", str(home / f"disk{node}"), str(home / "runs")]
            assert lab.run(node, mount).returncode == 0

        def start(*words):
            path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            words = list(map(str, words))
            return lab.start(LAPTOP, words, variables={"PYTHONPATH": path}, **pipes)

        words = ["--hosts", "node0:1,node1:1", "--ssh-config", lab.config, "--directory", home]
        run = home / "runs" / "run"
        launch = start(*UNISONO, "launch", home / "my.toml", *words)
        theirs = [here / "events" / f"rank-000{rank}.jsonl" for rank in (0, 1)]
        until(lambda: all(p.exists() and b'"step"' in p.read_bytes() for p in theirs), launch)
        metrics = start(*UNISONO, "publish", run, "--to", "prometheus", "--port", 0)
        link = metrics.stdout.readline().strip()

        def scraped():
            return lab.run(LAPTOP, [sys.executable, "-c", SCRAPE, link]).stdout

        def of_both(text):
            return all(
                re.search(rf'^unisono_{name}.*host="{host}"', text, re.M)
                for host in ("node0", "node1")
                for name in ("machine_cpu_share", "process_time_share")
            )

        def step(text):
            return float(re.search(r"^unisono_step\{[^}]*\} (\S+)$", text, re.M)[1])

        first = until(lambda: text if of_both(text := scraped()) else "", launch, metrics)
        until(lambda: step(scraped()) > step(first), launch, metrics)

        hook = start(sys.executable, "-m", "support.hook", hooked)
        address = home / "address"
        address.write_text(f"http://127.0.0.1:{hook.stdout.readline().strip()}/\n")
        address.chmod(0o600)
        sender = start(*UNISONO, "publish", run, "--to", "webhook", "--address-file", address)
        lab.power_off(1)

        def heard():
            lines = hooked.read_text().splitlines() if hooked.exists() else []
            return [one for one in map(json.loads, lines) if one["kind"] == "lost"]

        lost = until(heard, hook, sender)
        assert "node1" in lost[0]["summary"]
        assert launch.wait() != 0
        until(lambda: "failed" in re.findall(r'state="(\w+)"\} 1', scraped()), metrics)
        assert len({one["key"] for one in heard()}) == len(heard())
