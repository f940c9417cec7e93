"""Who is lost, judged by heartbeats and by silence. No clock runs here."""

import pytest

from unisono.heartbeat.loss_detector import AwakeClock, LossDetector
from unisono.heartbeat.messages import GroupMember, Heartbeat, Loss

MEMBERS = [GroupMember(rank, f"node{rank}", 100 + rank) for rank in range(3)]
LIMIT = 10.0


def beat(rank, condition="alive", detail="", **further):
    return Heartbeat(rank=rank, condition=condition, detail=detail, **further)


@pytest.fixture
def detector():
    detector = LossDetector(MEMBERS, LIMIT, now=0.0)
    for rank in range(3):
        detector.receive(beat(rank), 0.0)
    return detector


def beat_all(detector, now, without=()):
    for rank in {0, 1, 2} - set(without):
        detector.receive(beat(rank), now)


def test_nobody_is_lost_while_all_are_heard(detector):
    for second in range(100):
        beat_all(detector, float(second))
        assert detector.lost(second + 0.9) == ()


@pytest.mark.parametrize(
    ("condition", "how"), [("died", "process died"), ("stopped", "process stopped")]
)
def test_what_a_sidecar_reports_counts_at_once(detector, condition, how):
    detector.receive(beat(1, condition, "words"), 0.5)
    assert detector.lost(0.5) == (Loss(1, how, "words"),)


def test_five_seconds_of_silence_are_forgiven_and_ten_are_not(detector):
    beat_all(detector, 1.0)
    for second in range(2, 8):
        beat_all(detector, float(second), without=[2])
        assert detector.lost(second + 0.5) == ()
    beat_all(detector, 7.5)  # the link is up again
    for second in range(8, 15):
        beat_all(detector, float(second), without=[2])
        assert detector.lost(float(second)) == ()
    beat_all(detector, 16.0, without=[2])
    [loss] = detector.lost(16.0)
    assert (loss.rank, loss.how) == (2, "machine or link gone")


def test_the_first_who_is_lost_is_the_reason_and_the_others_are_not_named(detector):
    detector.receive(beat(1, "died"), 1.0)
    first = detector.lost(1.0)
    detector.receive(beat(2, "died"), 1.1)
    assert detector.lost(1.2) == first


def test_who_leaves_in_good_order_is_not_missed(detector):
    detector.receive(beat(1, "left"), 1.0)
    beat_all(detector, 60.0, without=[1])
    assert detector.lost(60.0) == ()


def test_an_error_that_all_leave_for_is_no_loss_but_one_that_only_one_has_is(detector):
    for rank in range(3):
        detector.receive(beat(rank, "failed", "no space"), 1.0 + rank / 10)
    assert detector.lost(9.0) == ()
    alone = LossDetector(MEMBERS, LIMIT, now=0.0)
    for second in range(6):
        for rank in (0, 2):
            alone.receive(beat(rank), float(second))
        alone.receive(beat(1, "failed", "no space") if second else beat(1), float(second))
        expected = (Loss(1, "process died", "no space"),) if second == 5 else ()
        assert alone.lost(second + 0.0) == expected


def test_a_rank_that_was_never_heard_is_reported_but_not_lost():
    detector = LossDetector(MEMBERS, LIMIT, now=0.0)
    for second in range(60):
        for rank in (0, 1):
            detector.receive(beat(rank), float(second))
    assert detector.lost(60.0) == ()
    assert detector.never_heard(20.0) == ()
    assert detector.never_heard(60.0) == (MEMBERS[2],)


def test_it_is_settled_when_all_who_can_be_told_have_been(detector):
    detector.receive(beat(1, "died"), 1.0)
    assert detector.lost(1.0)
    assert not detector.is_settled(1.0)
    detector.receive(beat(1, "died", announced=True), 1.1)
    assert not detector.is_settled(1.1)
    detector.receive(beat(2, announced=True), 1.2)
    assert detector.is_settled(1.2)


def test_nobody_is_blamed_for_the_time_we_slept_ourselves():
    clock = AwakeClock(0.0)
    assert [clock.read(t) for t in (0.5, 1.0)] == [0.5, 1.0]
    assert clock.read(101.0) == 1.0
    assert clock.read(101.5) == 1.5


def test_time_stands_still_while_strangers_crowd_the_server():
    clock = AwakeClock(0.0)
    assert clock.read(1.0) == 1.0
    assert [clock.read(now, stands_still=True) for now in (1.5, 2.5, 3.5)] == [1.0] * 3
    assert clock.read(4.5) == 2.0


def test_after_a_sidecar_was_replaced_silence_counts_from_then_on():
    detector = LossDetector(MEMBERS, LIMIT, now=5.0, heard_before=True)
    for rank in (0, 1):
        detector.receive(beat(rank), 12.0)
    assert detector.lost(12.0) == ()
    assert detector.lost(12.6) == (Loss(2, "machine or link gone", "silent for 8 s"),)
