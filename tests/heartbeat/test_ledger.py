"""Who is lost, judged by reports and by silence. No clock runs here."""

import pytest

from unisono.heartbeat.loss_detector import HeartbeatTimes, LossDetector
from unisono.heartbeat.messages import GroupMember, Heartbeat, Loss

MEMBERS = [GroupMember(rank, f"node{rank}", 100 + rank) for rank in range(3)]
LIMIT = 10.0


def report(rank, condition="alive", detail="", told=False):
    return Heartbeat(token="t", rank=rank, condition=condition, detail=detail, told=told)


@pytest.fixture
def ledger():
    ledger = LossDetector(MEMBERS, LIMIT, now=0.0)
    for rank in range(3):
        ledger.hear(report(rank), 0.0)
    return ledger


def hear_all(ledger, now, without=()):
    for rank in {0, 1, 2} - set(without):
        ledger.hear(report(rank), now)


def test_nobody_is_lost_while_all_are_heard(ledger):
    for second in range(100):
        hear_all(ledger, float(second))
        assert ledger.lost(second + 0.9) == ()


@pytest.mark.parametrize(
    ("condition", "how"), [("died", "process died"), ("stopped", "process stopped")]
)
def test_what_a_watchman_reports_counts_at_once(ledger, condition, how):
    ledger.hear(report(1, condition, "words"), 0.5)
    assert ledger.lost(0.5) == (Loss(1, how, "words"),)


def test_five_seconds_of_silence_are_forgiven_and_ten_are_not(ledger):
    hear_all(ledger, 1.0)
    for second in range(2, 8):
        hear_all(ledger, float(second), without=[2])
        assert ledger.lost(second + 0.5) == ()
    hear_all(ledger, 7.5)  # the link is up again
    for second in range(8, 15):
        hear_all(ledger, float(second), without=[2])
        assert ledger.lost(float(second)) == ()
    hear_all(ledger, 16.0, without=[2])
    [loss] = ledger.lost(16.0)
    assert (loss.rank, loss.how) == (2, "machine or link gone")


def test_the_first_who_is_lost_is_the_reason_and_the_others_are_not_named(ledger):
    ledger.hear(report(1, "died"), 1.0)
    first = ledger.lost(1.0)
    ledger.hear(report(2, "died"), 1.1)
    assert ledger.lost(1.2) == first


def test_who_leaves_in_good_order_is_not_missed(ledger):
    ledger.hear(report(1, "left"), 1.0)
    hear_all(ledger, 60.0, without=[1])
    assert ledger.lost(60.0) == ()


def test_an_error_that_all_leave_for_is_no_loss_but_one_that_only_one_has_is(ledger):
    for rank in range(3):
        ledger.hear(report(rank, "failed", "no space"), 1.0 + rank / 10)
    assert ledger.lost(9.0) == ()
    alone = LossDetector(MEMBERS, LIMIT, now=0.0)
    for second in range(6):
        for rank in (0, 2):
            alone.hear(report(rank), float(second))
        alone.hear(report(1, "failed", "no space") if second else report(1), float(second))
        expected = (Loss(1, "process died", "no space"),) if second == 5 else ()
        assert alone.lost(second + 0.0) == expected


def test_who_was_never_heard_is_told_of_but_not_lost():
    ledger = LossDetector(MEMBERS, LIMIT, now=0.0)
    for second in range(60):
        for rank in (0, 1):
            ledger.hear(report(rank), float(second))
    assert ledger.lost(60.0) == ()
    assert ledger.unheard(20.0) == ()
    assert ledger.unheard(60.0) == (MEMBERS[2],)


def test_it_is_settled_when_all_who_can_be_told_are(ledger):
    ledger.hear(report(1, "died"), 1.0)
    assert ledger.lost(1.0)
    assert not ledger.is_settled(1.0)
    ledger.hear(report(1, "died", told=True), 1.1)
    assert not ledger.is_settled(1.1)
    ledger.hear(report(2, told=True), 1.2)
    assert ledger.is_settled(1.2)


def test_nobody_is_blamed_for_the_time_we_slept_ourselves():
    clock = HeartbeatTimes(0.0)
    assert [clock.awake(t) for t in (0.5, 1.0)] == [0.5, 1.0]
    assert clock.awake(101.0) == 1.0
    assert clock.awake(101.5) == 1.5
