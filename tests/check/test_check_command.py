"""`unisono check`, as a user calls it: alone, and on two machines with a slow link."""

import json
import subprocess
import sys

import pytest

from support.tiny import tiny_settings
from unisono.config.load import to_toml

pytestmark = pytest.mark.ranks

UNISONO = [sys.executable, "-m", "unisono"]
QUICKLY = ["--seconds=1", "--json"]
SLOW = 1.0  # Mbit/s: slower than one machine even where others keep the cores busy
CARRIED = 0.955  # of a shaped rate: what is left without headers


@pytest.fixture
def config(corpus_home, tmp_path):
    path = tmp_path / "check.toml"
    settings = tiny_settings(corpus_home, run=tmp_path / "runs" / "later", model={"width": 64})
    path.write_text(to_toml(settings))
    return path


def said(*words):
    return subprocess.run([*UNISONO, *words], capture_output=True, text=True, check=False)


def nothing_left(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir()) == ["check.toml"]


def test_alone_there_is_nothing_to_exchange_and_nothing_is_left_behind(config, tmp_path):
    for seconds in (1, 10, 100):  # on a busy machine a second does not do for all of it
        done = said("check", str(config), f"--seconds={seconds}", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        if not found["measured"]["unmeasured"]:
            break
    (way,) = found["ways"]
    assert (way["machines"], way["exposed"], found["stop"]) == (1, 0, "")
    assert way["step_seconds_90"][0] < way["step_seconds"] < way["step_seconds_90"][1]
    assert found["measured"]["job"]["updates"] == 12
    measured = found["measured"]
    assert 0 < measured["translation_seconds"] < measured["evaluation_seconds"]
    assert nothing_left(tmp_path)


def test_the_page_says_what_a_step_is_made_of(config):
    done = said("check", str(config), "--seconds=1", "--price=3")
    assert done.returncode == 0, done.stderr
    for word in ("computing", "evaluation", "checkpoint", "money", "advice: train as"):
        assert word in done.stdout
    assert "(the check took " in done.stdout


def checks(config):
    """Yield what up to three checks over a slow link find; each says stop."""
    lab = ["lab", "--nodes=2", f"--link={SLOW:g}mbit", "--"]
    for _ in range(3):
        done = said(*lab, "check", str(config), *QUICKLY)
        assert done.returncode == 1, done.stderr
        yield json.loads(done.stdout)


def rates(found):
    """Return the rate in each direction, in Mbit/s."""
    return [pair["rate"] * 8e-6 for pair in found["measured"]["pairs"]]


@pytest.mark.usefixtures("able")
def test_a_slow_link_is_measured_and_the_stop_sign_goes_up(config, tmp_path):
    # Other programs may delay a transfer of half a second; a wrong measure is wrong each time.
    expected = [pytest.approx(CARRIED * SLOW, rel=0.1)] * 2
    found = next(filter(lambda one: rates(one) == expected, checks(config)), None)
    assert found is not None
    assert "slower than one" in found["stop"]
    assert [way["machines"] for way in found["ways"]] == [2] * len(found["ways"])
    seen = found["measured"]["job"]["gradients"]
    assert sum(one["bytes"] for one in seen) == 4 * found["measured"]["job"]["parameters"]
    assert all(a["ready"] <= b["ready"] <= 1 for a, b in zip(seen, seen[1:], strict=False))
    assert nothing_left(tmp_path)


@pytest.mark.usefixtures("able")
def test_the_page_of_two_machines_says_stop_and_what_to_do_and_force_goes_on(config):
    lab = ["lab", "--nodes=2", f"--link={SLOW:g}mbit", "--"]
    done = said(*lab, "check", str(config), "--seconds=1", "--force")
    assert done.returncode == 0, done.stderr
    page = done.stdout
    assert "2 machines with 1 process each" in page
    assert "node0: 1 process on cpu, " in page
    assert "from node1 to node0" in page
    *_, stop, _, advice, took = page.strip().splitlines()
    assert "STOP: 2 machines are slower than one" in stop
    assert "advice: " in advice
    assert "advice: train as configured" not in advice
    assert "(the check took " in took


def test_what_training_would_refuse_is_refused_before(config, tmp_path):
    done = said("check", str(config), "--set", "corpus.drop_overlap=true")
    assert done.returncode == 2
    assert "the corpus was prepared with drop_overlap" in done.stderr
    assert nothing_left(tmp_path)
