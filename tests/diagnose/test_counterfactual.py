"""Whether a second machine pays, against arithmetic done by hand."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import PARAMETERS, healthy_run, now, start, step, team
from diagnose.made_samples import pair
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.counterfactual import better_exchange, one_machine


def case_of(run):
    return open_case(run, now())


def findings(run):
    return [f for f in diagnose(run, now()).findings if f.id == "more_machines"]


def cluster(hosts, compute=0.4, exchange=0.5, optimizer=0.05):
    """Updates of a second: half of `compute` forward, half backward, on every process."""
    return team(
        lambda rank, n: {
            "forward": compute / 2,
            "backward": compute / 2,
            "optimizer": optimizer,
            "exchange": exchange,
        },
        hosts,
    )


def test_one_of_two_machines_would_compute_both_shares_and_exchange_nothing():
    alone = one_machine(case_of(cluster(["a", "b"])))
    assert alone.seconds == pytest.approx(2 * 0.4 + 0.05 + 0.05)
    assert alone.together == pytest.approx(1.0)
    assert alone.speedup == pytest.approx(0.9)


def test_one_of_three_machines_would_compute_three_shares():
    alone = one_machine(case_of(cluster(["a", "b", "c"], compute=0.3, exchange=0.6)))
    assert alone.seconds == pytest.approx(3 * 0.3 + 0.05 + 0.05)


def test_a_machine_of_two_processes_goes_on_exchanging_between_them():
    alone = one_machine(case_of(cluster(["a", "a", "b", "b"])))
    assert alone.processes == 2
    least = 2 * 0.4 + 0.05 + 0.05
    assert least < alone.seconds < least + 2 * 4 * PARAMETERS / 1e9


def test_the_faster_of_two_machines_is_the_one_to_keep():
    def parts(rank, n):
        slow = 0.6 if rank else 0.2
        return {
            "forward": slow / 2,
            "backward": slow / 2,
            "optimizer": 0.05,
            "exchange": 0.85 - slow,
        }

    (found,) = findings(team(parts, ["quick", "slow"]))
    assert "2 machines are slower than one: 0.55 times its speed" in found.summary
    assert "quick alone would need about 0.55 s" in found.summary
    assert "Train on quick alone" in found.advice or "train on quick alone" in found.advice


def test_a_machine_with_a_smaller_share_would_have_the_whole_update_too():
    def parts(rank, n):
        mine = 0.6 if rank else 0.2  # as slow as each other: rank 1 has three quarters
        return {
            "forward": mine / 2,
            "backward": mine / 2,
            "optimizer": 0.05,
            "exchange": 0.6 - mine,
            "own_positions": 3000 if rank else 1000,
        }

    run = team(parts, ["a", "b"], seconds=0.7)
    alone = one_machine(case_of(run))
    assert alone.share in (0.25, 0.75)
    assert alone.seconds == pytest.approx(0.8 + 0.05 + 0.05)
    assert findings(run) == []


def test_a_machine_that_hardly_helps_is_said_to():
    (found,) = findings(cluster(["a", "b"], compute=0.5, exchange=0.4))
    assert "hardly faster than one: 1.10 times" in found.summary


@pytest.mark.parametrize(
    "run",
    [
        lambda: cluster(["a", "b"], compute=0.6, exchange=0.3),
        lambda: cluster(["a", "a"]),
        lambda: healthy_run(),
        lambda: replace(cluster(["a", "b"]), ranks={0: cluster(["a", "b"]).ranks[0]}),
        lambda: healthy_run(
            steps=10,
            starts=(start(0, 2, "a"), start(1, 2, "b")),
            ranks=dict.fromkeys((0, 1), tuple(step(n, exchange=0.6) for n in range(1, 11))),
        ),
    ],
    ids=["pays", "one machine", "one process", "records missing", "too few updates"],
)
def test_nothing_is_said_where_it_pays_or_cannot_be_known(run):
    assert findings(run()) == []


def test_fewer_bits_are_advised_where_they_make_it_pay():
    run = pair(exchange=0.5, rates=(4000.0, 4000.0))  # 244 MB take 0.49 s
    (found,) = findings(run)
    better = better_exchange(case_of(run), one_machine(case_of(run)))
    assert better.exchange.strategy == "compressed"
    assert f"`sync.bits = {better.exchange.bits}`" in found.advice
    assert better.seconds < 0.9 / 1.2


def test_weights_go_apart_only_where_nothing_else_pays():
    quick, slow = (pair(exchange=0.5, rates=(rate, rate)) for rate in (1500.0, 310.0))
    assert '"compressed"` and `sync.bits = 4`' in findings(quick)[0].advice
    assert '"diloco"`, `sync.bits = 4` and `sync.local_steps = 2`' in findings(slow)[0].advice


def test_what_is_in_use_is_not_advised():
    run = pair(exchange=0.5, rates=(4000.0, 4000.0))
    used = better_exchange(case_of(run), one_machine(case_of(run))).exchange
    starts = tuple(
        msgspec.structs.replace(s, strategy=used.strategy, bits=used.bits) for s in run.starts
    )
    again = case_of(replace(run, starts=starts))
    better = better_exchange(again, one_machine(again))
    assert better is None or better.exchange.bits != used.bits


def test_over_a_hopeless_link_one_machine_is_advised():
    run = pair(exchange=0.5, rates=(1.0, 1.0))
    (found,) = findings(run)
    assert found.advice.startswith("Train on alpha alone, at 1/2 of the price")
