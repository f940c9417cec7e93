"""How long, how fast, waiting for what: each verdict, both ways."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.asking import answer, settings, verdict
from diagnose.made_runs import (
    BEGAN,
    ended,
    healthy_run,
    now,
    saved,
    start,
    step,
    team,
)

# --- duration ---------------------------------------------------------------------------


def test_a_run_that_reached_its_limit_is_finished():
    found = answer(healthy_run(), "duration")
    assert found.verdict == "finished"
    assert found.values["seconds"] == pytest.approx(201)
    assert found.values["restarts"] == 0


def test_a_run_ended_by_a_signal_is_stopped():
    assert verdict(healthy_run(ends=(ended(reason="signal"),)), "duration") == "stopped"


def test_a_run_that_fell_silent_has_failed():
    run = healthy_run(steps=150, ends=())
    found = answer(run, "duration", BEGAN + 150 + 4000)
    assert found.verdict == "failed"
    assert "step-0000100" in found.advice


def test_a_run_that_spoke_just_now_is_running_and_says_how_long():
    run = healthy_run(steps=150, ends=())
    found = answer(run, "duration", BEGAN + 151)
    assert found.verdict == "running"
    assert found.values["seconds"] == pytest.approx(151)
    assert found.values["seconds_left"] == pytest.approx(49.5, abs=1.0)


def test_a_first_validation_may_take_long_without_a_sign_of_life():
    run = healthy_run(steps=140, ends=(), validations=(), saves=())
    assert verdict(run, "duration", BEGAN + 140 + 600) == "running"
    run = healthy_run(steps=145, ends=(), validations=(), saves=())
    assert verdict(run, "duration", BEGAN + 145 + 600) == "failed"


def test_a_limit_in_time_bounds_what_is_left():
    run = healthy_run(steps=150, ends=(), config=settings("train", max_time="3 min"))
    left = answer(run, "duration", BEGAN + 151).values["seconds_left"]
    assert left == pytest.approx(29, abs=1)


def test_restarts_are_counted_and_lost_time_is_not_invented():
    run = healthy_run(starts=(start(), start(step=100, time=BEGAN + 100.9)))
    found = answer(run, "duration")
    assert found.values["restarts"] == 1
    assert "at least" in found.summary


def test_work_that_was_undone_and_words_of_a_failure_are_told():
    run = replace(healthy_run(ends=()), undone=12.0, message="no space left on the device")
    found = answer(run, "duration", now() + 3600)
    assert found.verdict == "failed"
    assert any("undid 12.0 s of updates" in line for line in found.evidence)
    assert "its last message: no space left on the device" in found.evidence


def test_a_late_rank_of_an_earlier_start_is_not_blamed_on_the_machine_of_the_last():
    """Rank 1 was late until it came to another machine at step 100."""

    def parts(rank, n):
        late = rank == 1 and n <= 100
        return {"backward": 0.8 if late else 0.4, "exchange": 0.1 if late or n > 100 else 0.5}

    run = team(parts, ["alpha", "beta"])
    again = tuple(
        start(rank, 2, host, step=100, time=BEGAN + 100.2)
        for rank, host in enumerate(("alpha", "gamma"))
    )
    found = answer(replace(run, starts=(*run.starts, *again)), "step_time")
    assert "gamma" not in " ".join([found.summary, *found.evidence])


# --- devices and network ----------------------------------------------------------------


def test_devices_are_never_called_busy_without_a_power_reading():
    found = answer(healthy_run(), "devices")
    assert found.verdict == "unknown"
    assert found.values["compute_share"] == pytest.approx(0.895, abs=1e-3)
    assert "nothing sampled" in found.summary


def test_devices_that_wait_are_found_out():
    run = team(lambda rank, n: {"backward": 0.2, "exchange": 0.3}, ["a", "b"])
    found = answer(run, "devices")
    assert found.verdict == "waiting"
    assert found.values["waiting_share"] == pytest.approx(0.3, abs=0.01)


def test_devices_wait_for_checkpoints_as_well():
    saves = tuple(saved(n, seconds=10.0) for n in range(20, 201, 20))
    found = answer(healthy_run(saves=saves), "devices")
    assert found.verdict == "waiting"
    assert found.values["waiting_share"] == pytest.approx(0.357, abs=1e-3)
    assert "Save less often" in found.advice


def test_one_process_uses_no_network():
    assert verdict(healthy_run(), "network") == "not_used"


def test_one_machine_uses_no_network_but_says_what_travelled():
    run = team(lambda rank, n: {"exchange": 0.05}, ["a"] * 4)
    found = answer(run, "network")
    assert found.verdict == "not_used"
    assert "loopback" in found.summary
    assert found.values["expected_bytes_per_step"] == 365_285_376


@pytest.mark.parametrize(
    ("exchange", "expected"), [(0.5, "bottleneck"), (0.05, "not_bottleneck")]
)
def test_between_machines_the_wire_decides(exchange, expected):
    run = team(lambda rank, n: {"backward": 0.2, "exchange": exchange}, ["a", "b"])
    found = answer(run, "network")
    assert found.verdict == expected
    assert found.values["measured_bytes_per_step"] is None
    assert found.values["share_of_step"] == pytest.approx(exchange)
    assert "not sampled" in found.summary


def test_waiting_for_a_late_rank_is_not_blamed_on_the_network():
    def parts(rank, n):
        return {"backward": 0.6 if rank else 0.1, "exchange": 0.02 if rank else 0.52}

    assert verdict(team(parts, ["a", "b"]), "network") == "not_bottleneck"


def test_without_the_other_ranks_a_slow_link_is_not_told_from_a_late_rank():
    run = team(lambda rank, n: {"backward": 0.1, "exchange": 0.6}, ["a", "b"])
    run = replace(run, ranks={0: run.ranks[0]})
    assert verdict(run, "network") == "unknown"
    assert verdict(run, "step_vs_network") == "unknown"


# --- step time --------------------------------------------------------------------------


def test_a_step_is_the_sum_of_its_parts():
    found = answer(healthy_run(), "step_time")
    parts = found.values["parts_seconds"]
    assert sum(parts.values()) == pytest.approx(found.values["mean_seconds"])
    assert parts["backward"] == pytest.approx(0.5)
    assert parts["other"] == pytest.approx(0.1)


def test_the_first_step_does_not_spoil_the_mean():
    steps = (step(1, seconds=60.0, time=BEGAN + 1), *(step(n) for n in range(2, 201)))
    assert answer(healthy_run(ranks={0: steps}), "step_time").values["mean_seconds"] == 1.0


def test_the_late_rank_is_named_with_what_it_does_longer():
    def parts(rank, n):
        if rank:
            return {"data": 0.3, "backward": 0.1, "exchange": 0.02}
        return {"backward": 0.1, "exchange": 0.32}

    found = answer(team(parts, ["a", "b"]), "step_time")
    assert any("rank 1 on b" in line and "waiting for data" in line for line in found.evidence)


def test_steps_that_follow_the_exchange_correlate_with_it():
    def parts(rank, n):
        return {"backward": 0.1, "exchange": 0.05 * (n % 5)}

    run = team(parts, ["a", "b"])
    moved = {
        rank: tuple(msgspec.structs.replace(s, seconds=0.5 + s.exchange) for s in steps)
        for rank, steps in run.ranks.items()
    }
    found = answer(replace(run, ranks=moved), "step_vs_network")
    assert found.verdict == "answered"
    assert found.values["correlation"] == pytest.approx(1.0)
    assert found.values["waiting_seconds"] == 0.0


def test_one_process_has_nothing_to_correlate():
    found = answer(healthy_run(), "step_vs_network")
    assert found.verdict == "answered"
    assert found.values["correlation"] is None


# --- a number of processes that changed -------------------------------------------------


def test_a_run_that_went_on_with_fewer_processes_is_not_called_one_process():
    starts = (start(size=2), start(rank=1, size=2), start(step=100, time=BEGAN + 100))
    steps = tuple(step(n, exchange=0.1) for n in range(1, 201))
    run = healthy_run(starts=starts, ranks={0: steps, 1: steps[:100]})
    found = answer(run, "network")
    assert found.verdict == "not_used"
    assert "changed from start to start (2 and 1)" in found.summary
    assert verdict(run, "step_vs_network") == "unknown"
