"""`launch --detach`, `attach` and `pull`: the launcher vanishes and comes back."""

import subprocess
import sys
import time

import psutil
import pytest

from support.ssh import SshLab
from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.records.view import read_run

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.long(minutes=1),
    pytest.mark.usefixtures("able"),
    pytest.mark.timeout(900),
]

UNISONO = [sys.executable, "-m", "unisono"]
LAPTOP = 2  # the node that launches, and does not train
TOKEN = "t0ken-of-somebody"


@pytest.fixture(scope="module")
def home(corpus_home, tmp_path_factory):
    """A directory whose name a shell would take apart, with a config in it."""
    home = tmp_path_factory.mktemp("detached")
    for name in ('my runs\' "x"', "disk0", "disk1", "disk2"):
        (home / name).mkdir()
    settings = tiny_settings(
        corpus_home, train={"max_steps": 1_000_000}, checkpoint={"every_steps": 50}
    )
    (home / "my config's.toml").write_text(to_toml(settings))
    return home


@pytest.fixture(scope="module")
def machines(home):
    """Two machines that train and a laptop; each has its own disk for runs."""
    with SshLab(home, 3) as lab:
        for node in range(3):
            mount = ["mount", "--bind", str(home / f"disk{node}"), str(home / 'my runs\' "x"')]
            assert lab.run(node, mount).returncode == 0
        yield lab


def own_records(home):
    """Return what each machine recorded itself: rank 0 on node0, rank 1 on node1."""
    name = "run/events/rank-{:04d}.jsonl"
    return [(home / f"disk{node}" / name.format(node)).read_bytes() for node in (0, 1)]


def records_here(home):
    events = home / "disk2" / "run" / "events"
    return [(events / f"rank-{rank:04d}.jsonl").read_bytes() for rank in (0, 1)]


def wait_for(job, sign):
    for line in job.stderr:
        if sign in line:
            return line
    raise AssertionError(f"it never said {sign!r}")


def wait_until(true):
    while not true():
        time.sleep(0.1)


def is_longer(now, before):
    return len(now) > len(before) + 2000


def children(job):
    return psutil.Process(job.program).children()


def test_a_launcher_that_vanishes_finds_the_run_again_and_misses_nothing(machines, home):
    run = home / 'my runs\' "x"' / "run"
    here = ["--ssh-config", machines.config, "--directory", home, "--set", f"run={run}"]
    words = ["launch", home / "my config's.toml", "--hosts", "node0:1,node1:1", *here]
    words += ["--detach", "--env", f"HF_TOKEN={TOKEN}", "--env", 'ODD=it\'s "a" $HOME; true']
    done = machines.run(LAPTOP, [*UNISONO, *map(str, words)])
    assert done.returncode == 0, done.stderr
    assert "follow: unisono attach " in done.stderr
    attach = [*UNISONO, "attach", str(run)]
    job = machines.start(LAPTOP, attach, stderr=subprocess.PIPE)
    wait_for(job, "node0 | saved")
    # The laptop sleeps: its connections break, and the machines train on.
    machines.link_down(LAPTOP)
    for connection in children(job):
        connection.kill()
    wait_for(job, "wait:")
    before = own_records(home)
    wait_until(lambda: all(map(is_longer, own_records(home), before)))
    missed = own_records(home)
    machines.link_up(LAPTOP)
    wait_for(job, "is back")
    wait_until(lambda: all(map(bytes.startswith, records_here(home), missed)))
    # It is killed, and another one stops the run.
    psutil.Process(job.program).kill()
    job.stderr.close()
    done = machines.run(LAPTOP, [*attach, "--stop"])
    assert done.returncode == 75, done.stderr
    assert "node0 | ended at step" in done.stderr
    assert records_here(home) == own_records(home)
    view = read_run(home / "disk2" / "run")
    assert view.ends[-1].reason == "signal"
    assert sorted(start.host for start in view.starts) == ["node0", "node1"]
    _shows_no_secret(machines, home, done.stderr)
    # A machine whose records came may be gone.
    machines.power_off(1)
    done = machines.run(LAPTOP, [*UNISONO, "pull", str(run), "--wait", "20"])
    assert done.returncode == 1
    assert "node1 may have more records than are here" in done.stderr
    assert records_here(home) == own_records(home)


def _shows_no_secret(machines, home, shown):
    texts = [path.read_bytes() for disk in (0, 1, 2) for path in files(home / f"disk{disk}")]
    assert len(texts) > 20
    assert not any(TOKEN.encode() in text for text in [*texts, shown.encode()])


def files(directory):
    return [path for path in directory.rglob("*") if path.is_file()]
