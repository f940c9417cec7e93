"""What somebody hears of while a run goes on."""

import pytest

from diagnose.made_runs import BEGAN, ended
from publish.conftest import tell
from unisono.diagnose.case import open_case
from unisono.publish.alerts import alerts_of
from unisono.records.events import Found, Lost, Warned
from unisono.records.follow import Follower


def heard(run, seconds=31.0):
    return alerts_of(open_case(Follower(run).look(), BEGAN + seconds))


def kinds(run, seconds=31.0):
    return [alert.kind for alert in heard(run, seconds)]


def test_a_healthy_run_is_quiet(run):
    assert kinds(run) == []


def test_every_event_of_interest_is_heard_once_in_its_order(run):
    lost = Lost(time=BEGAN + 33, step=30, rank=1, host="beta", pid=7, how="process died")
    tell(run, Warned(time=BEGAN + 31, step=30, message="the disk is nearly full"), lost)
    tell(run, lost, rank=1)  # both machines say so
    found = {"time": BEGAN + 32, "step": 30, "id": "slow_disk", "about": "alpha"}
    tell(
        run, Found(**found, summary="The disk is slow.", advice="Buy one.", severity="warning")
    )
    alerts = heard(run, 34)
    assert [alert.kind for alert in alerts] == ["warning", "finding", "lost"]
    assert alerts[1].advice == "Buy one."
    assert "rank 1 on beta" in alerts[2].summary
    over = {**found, "time": BEGAN + 35}
    tell(run, Found(**over, summary="The disk is slow.", over=True), ended(30, time=BEGAN + 36))
    assert kinds(run, 37)[3:] == ["finding_over", "ended"]
    keys = [alert.key for alert in heard(run, 37)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("lives", "kind"), [(True, "stalled"), (False, "failed")])
def test_a_run_that_falls_silent_is_heard_of(run, lives, kind, monkeypatch):
    monkeypatch.setattr("unisono.records.follow.leader_lives", lambda *_: lives)
    late = [alert for alert in heard(run, 5000) if alert.kind == kind]
    assert len(late) == 1
    assert late[0].severity == "error"
    assert late == [alert for alert in heard(run, 9000) if alert.kind == kind]
