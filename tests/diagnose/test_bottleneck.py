"""Where the time went, against runs whose truth is known."""

from functools import partial

import msgspec
import pytest

from diagnose.made_runs import (
    BEGAN,
    ended,
    healthy_run,
    now,
    saved,
    scored,
    step,
    team,
    validated,
)
from diagnose.made_samples import uneven
from unisono.cost_model.exchange import ring_bytes
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.ledger import keep_ledger
from unisono.diagnose.evidence.sessions import sessions_of


def found(run):
    return diagnose(run, now()).bottleneck


def shares(bottleneck):
    return msgspec.structs.asdict(bottleneck.shares)


def test_a_run_that_computes_is_called_compute():
    bottleneck = found(healthy_run())
    assert bottleneck.cause == "compute"
    assert bottleneck.share == pytest.approx(180 / 201, abs=1e-3)
    assert bottleneck.without_it_seconds_per_step is None


def test_a_slow_link_is_the_time_nobody_was_spared():
    # Both wait 0.6 s; nobody is late.
    run = team(lambda rank, n: {"forward": 0.1, "backward": 0.2, "exchange": 0.6}, ["a", "b"])
    bottleneck = found(run)
    assert bottleneck.cause == "network"
    assert bottleneck.share == pytest.approx(0.6 * 200 / 201, abs=1e-3)
    assert bottleneck.shares.straggler == 0.0
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.4)
    assert bottleneck.culprit is None


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("part", ["backward", "data"])
def test_a_late_rank_is_the_one_that_waits_least(part, others):
    def parts(rank, n):
        usual = {"forward": 0.1, "backward": 0.1, "data": 0.02}
        if rank == 1:
            return {**usual, part: usual[part] + 0.4, "exchange": 0.05}
        return {**usual, "exchange": 0.45}

    bottleneck = found(team(parts, ["a", "b", "c"][: 1 + others]))
    assert bottleneck.cause == "straggler"
    assert bottleneck.culprit == 1
    assert bottleneck.shares.straggler == pytest.approx(
        0.4 * others / (1 + others) * 200 / 201, abs=1e-3
    )
    assert bottleneck.shares.network == pytest.approx(0.05 * 200 / 201, abs=1e-3)
    # Fixing rank 1 saves the whole wait, not its mean over the processes.
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.6)


def test_ranks_that_take_turns_have_no_culprit():
    def parts(rank, n):
        late = n % 2 == rank
        return {"forward": 0.4 if late else 0.1, "exchange": 0.05 if late else 0.35}

    bottleneck = found(team(parts, ["a", "b"]))
    assert bottleneck.cause == "straggler"
    assert bottleneck.culprit is None
    # Evened out, each would arrive in the middle: half of the wait is saved.
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.85)


def slow_machine(rank, n, turns=2):
    """Ranks 2 and 3 compute for 0.4 s longer; in one of so many turns rank 2 is last."""
    if rank < 2:
        return {"forward": 0.1, "backward": 0.2, "exchange": 0.45}
    last = (n % turns == 0) == (rank == 2)
    return {
        "forward": 0.1,
        "backward": 0.6 if last else 0.58,
        "exchange": 0.05 if last else 0.07,
    }


@pytest.mark.parametrize("turns", [2, 4, 1000])
def test_a_slow_machine_is_named_whoever_of_its_ranks_is_last(turns):
    run = team(partial(slow_machine, turns=turns), ["a", "a", "b", "b"])
    bottleneck = found(run)
    assert bottleneck.cause == "straggler"
    assert bottleneck.culprit in (2, 3)
    # As quick as the others, both: the whole wait is saved.
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.6)
    (finding,) = [f for f in diagnose(run, now()).findings if f.id == "straggler"]
    assert finding.about == "b"
    assert "waiting for the processes on b: they compute more slowly" in finding.summary
    assert "100 % of all waiting was for the processes on b" in " ".join(finding.evidence)
    # The same on one machine has no culprit: its ranks do take turns.
    assert found(team(slow_machine, ["a"] * 4)).culprit is None


def test_a_rank_whose_mates_are_quick_is_named_by_itself():
    def parts(rank, n):
        late = rank == 3
        return {"forward": 0.5 if late else 0.1, "exchange": 0.05 if late else 0.45}

    run = team(parts, ["a", "a", "b", "b"])
    assert found(run).culprit == 3
    (finding,) = [f for f in diagnose(run, now()).findings if f.id == "straggler"]
    assert "waiting for rank 3" in finding.summary


def test_a_machine_with_most_of_the_processes_is_not_late_for_that():
    def parts(rank, n):
        late = n % 4 == rank
        return {"forward": 0.4 if late else 0.1, "exchange": 0.05 if late else 0.35}

    assert found(team(parts, ["a", "a", "a", "b"])).culprit is None


def test_waiting_for_data_on_all_ranks_is_data():
    run = team(lambda rank, n: {"data": 0.4, "backward": 0.1}, ["a", "b"])
    bottleneck = found(run)
    assert bottleneck.cause == "data"
    assert bottleneck.shares.data == pytest.approx(0.4 * 200 / 201, abs=1e-3)
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.6)


def test_agreeing_counts_as_the_wire_for_the_least_and_waiting_for_the_rest():
    run = team(lambda rank, n: {"agree": 0.1 if rank else 0.3, "backward": 0.2}, ["a", "b"])
    bottleneck = found(run)
    assert bottleneck.shares.network == pytest.approx(0.1 * 200 / 201, abs=1e-3)
    assert bottleneck.shares.straggler == pytest.approx(0.1 * 200 / 201, abs=1e-3)


def test_evaluation_and_checkpoints_are_named():
    # Half of the 201 seconds are validations: the steps take half a second.
    steps = tuple(
        step(n, seconds=0.5, time=step(n).time, forward=0.2, backward=0.2, optimizer=0.05)
        for n in range(1, 201)
    )
    validations = tuple(validated(n, 2.5, seconds=10.0) for n in range(20, 201, 20))
    bottleneck = found(healthy_run(ranks={0: steps}, validations=validations))
    assert bottleneck.cause == "evaluation"
    assert bottleneck.share == pytest.approx(100 / 201, abs=1e-3)
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.5)
    saves = tuple(saved(n, seconds=10.0) for n in range(20, 201, 20))
    assert found(healthy_run(ranks={0: steps}, saves=saves)).cause == "checkpoint"


def test_one_process_waits_for_nobody():
    # On a device that works in the background, the wait for it is timed where results are read.
    run = healthy_run(ranks={0: tuple(step(n, agree=0.5, backward=0.0) for n in range(1, 201))})
    bottleneck = found(run)
    assert bottleneck.cause == "compute"
    assert bottleneck.shares.network == 0.0


def test_time_that_nothing_explains_is_named_only_if_it_outweighs_arithmetic():
    steps = tuple(step(n, forward=0.1, backward=0.1) for n in range(1, 201))
    assert found(healthy_run(ranks={0: steps})).cause == "other"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_add_up_to_one(size):
    run = team(
        lambda rank, n: {"forward": 0.1, "backward": 0.01 * (n % 7), "exchange": 0.1 * rank},
        ["a"] * size,
    )
    assert sum(shares(found(run)).values()) == pytest.approx(1.0)


def test_ranks_of_a_larger_world_that_is_gone_do_not_count():
    big = team(lambda rank, n: {"data": 0.5}, ["a", "b"])
    run = healthy_run(ranks={0: healthy_run().ranks[0], 1: big.ranks[1]})
    assert found(run) == found(healthy_run())


def test_the_ring_sends_what_the_field_measured():
    assert ring_bytes(60_880_896, 4) == 365_285_376
    assert ring_bytes(60_880_896, 1) == 0
    assert ring_bytes(1000, 2) == 4000


def test_what_comes_before_the_first_and_after_the_last_update_has_a_name():
    steps = tuple(step(n, time=BEGAN + 3 + n) for n in range(1, 11))
    # 3 s before the first update; after the last 2 s of test, 1 s of saving and 4 s of rest.
    run = healthy_run(
        ranks={0: steps},
        validations=(),
        saves=(msgspec.structs.replace(saved(10, 1.0), time=BEGAN + 14),),
        tests=(msgspec.structs.replace(scored(10), time=BEGAN + 19, seconds=2.0),),
        ends=(ended(10, time=BEGAN + 20),),
    )
    ledger = keep_ledger(run, sessions_of(run))
    assert (ledger.starting, ledger.ending) == (pytest.approx(3.0), pytest.approx(4.0))
    assert ledger.wall == pytest.approx(20.0)
    assert ledger.closed == pytest.approx((3 + 4 + 2 + 1 + 9) / 20)  # 0.9 s of each update
    assert ledger.closed_between == pytest.approx(9 / 10)


def test_between_updates_only_what_was_timed_has_a_name():
    # 10 s of updates, of which 0.9 s each are timed; 5 s of validation and 2 s that nobody
    # timed in their midst; 3 s before, and 4 s of validation and 1 s of rest after.
    steps = tuple(step(n, time=BEGAN + 3 + n + (7 if n > 5 else 0)) for n in range(1, 11))
    during = msgspec.structs.replace(validated(5, 2.0, seconds=5.0), time=BEGAN + 13.0)
    after = msgspec.structs.replace(validated(10, 2.0, seconds=4.0), time=BEGAN + 24.0)
    run = healthy_run(
        ranks={0: steps},
        validations=(during, after),
        saves=(),
        ends=(ended(10, time=BEGAN + 25),),
    )
    ledger = keep_ledger(run, sessions_of(run))
    assert ledger.closed == pytest.approx(1 - 3 / 25)
    assert ledger.closed_between == pytest.approx(1 - 3 / 17)


def test_a_rank_with_more_to_do_can_only_be_evened_out():
    # Three of four pieces of an update, against one: with two each, one piece is saved.
    piece = {"forward": 0.1, "backward": 0.2, "optimizer": 0.0}
    parts = [
        {**piece, "exchange": 0.6},
        {"forward": 0.3, "backward": 0.6, "optimizer": 0.0, "exchange": 0.0},
    ]
    bottleneck = found(uneven([500, 1500], parts))
    assert (bottleneck.cause, bottleneck.culprit) == ("straggler", 1)
    assert bottleneck.without_it_seconds_per_step == pytest.approx(0.7)
    slow = found(uneven([1000, 1000], parts))
    assert slow.without_it_seconds_per_step == pytest.approx(0.4)


def test_a_slow_direction_is_the_wire_and_not_a_late_rank():
    # What rank 1 sends arrives late at rank 0; rank 1 is through, and waits in the agreement.
    parts = [
        {"forward": 0.1, "backward": 0.1, "optimizer": 0.0, "exchange": 0.8, "agree": 0.0},
        {"forward": 0.1, "backward": 0.1, "optimizer": 0.0, "exchange": 0.5, "agree": 0.3},
    ]
    bottleneck = found(team(lambda rank, n: parts[rank], ["a", "b"]))
    assert bottleneck.cause == "network"
    assert bottleneck.share == pytest.approx(0.8 * 200 / 201, abs=1e-3)
    assert bottleneck.shares.straggler == pytest.approx(0.0, abs=1e-3)


def test_a_late_rank_is_not_blamed_for_the_updates_that_waited_for_another():
    def parts(rank, n):
        late = rank == (0 if n % 4 == 0 else 1)
        return {"forward": 0.4 if late else 0.1, "exchange": 0.05 if late else 0.35}

    bottleneck = found(team(parts, ["a", "b"]))
    assert bottleneck.culprit == 1
    assert bottleneck.without_it_seconds_per_step == pytest.approx(1 - 0.75 * 0.3)
