"""Findings about links: each where it belongs, and not where it does not."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.asking import ids, the_finding
from diagnose.made_samples import (
    MBIT,
    burst,
    carried,
    fading,
    far_apart,
    pair,
    two_networks,
    way,
)
from unisono.records.monitor_events import NetworkInterface


def test_a_slow_direction_is_named_with_both_ends_and_rates():
    found = the_finding(pair(rates=(3500.0, 1000.0)))
    assert "From beta to alpha" in found.summary
    assert "1000 Mbit/s" in found.summary
    assert "3500 Mbit/s" in found.summary


@pytest.mark.parametrize(("able", "found"), [(3500.0, ["slow_direction"]), (1000.0, [])])
def test_a_way_whose_answers_come_back_slowly_is_not_slow_itself(able, found):
    # Both look alike; what the kernel saw arrive tells them apart.
    ables = (able * MBIT, 1000.0 * MBIT)
    run = pair(peers=lambda rank, there: way(there, 1000.0 * MBIT, able=ables[rank]))
    assert ids(run) == found


def test_a_direction_that_others_use_as_well_is_not_called_slow():
    found = ids(pair(rates=(1000.0, 3500.0), foreign=100e6))
    assert set(found) == {"foreign_traffic"}


def test_directions_that_differ_where_it_costs_nothing_are_fine():
    assert ids(pair(exchange=0.2, rates=(100_000.0, 300_000.0))) == []


def test_burst_credits_are_told_with_both_rates_and_the_step():
    found = the_finding(burst(at=120, slow=150.0))
    assert "from 1000 to 150 Mbit/s" in found.summary
    assert "step 12" in found.summary


def test_an_exchange_asked_for_less_often_is_no_slower_link():
    # Half as busy in the second half, at the same rate.
    run = pair(
        peers=lambda rank, there: (
            lambda second: {there: _less(second if second < 100 else 100 + (second - 100) / 2)}
        )
    )
    assert "burst_credits" not in ids(run)


def _less(amount):
    made = fading("x", 1000.0, 1000.0, 1000)(amount)["x"]
    sent = int(made.sent)
    return msgspec.structs.replace(made, sent=sent, busiest_sent=sent)


def test_a_second_network_that_is_no_faster_is_not_advised():
    run = pair(rates=(900.0, 900.0), links=lambda host: two_networks(host, 1000))
    assert ids(run) == []


def test_the_same_address_on_two_machines_is_no_network_between_them():
    bridge = NetworkInterface(mbit_per_s=10_000, addresses=["172.17.0.1/16"])
    run = pair(links=lambda host: {"eth0": two_networks(host)["eth0"], "docker0": bridge})
    assert ids(run) == []


def test_a_link_that_others_began_to_use_has_not_used_up_its_credits():
    run = burst(at=120, slow=150.0)
    assert ids(run) == ["burst_credits"]
    shared = pair(peers=lambda rank, there: fading(there, 1000.0, 150.0, 120), foreign=100e6)
    assert "burst_credits" not in ids(shared)


@pytest.mark.parametrize(
    "changes",
    [{"every": 8, "strategy": "diloco"}, {"device": "cuda:0"}],
)
def test_messages_are_counted_only_where_each_update_is_sent_in_buckets(changes):
    run = far_apart(0.05)
    starts = tuple(msgspec.structs.replace(s, **changes) for s in run.starts)
    assert "latency_bound" in ids(run)
    assert "latency_bound" not in ids(replace(run, starts=starts))


def test_a_faster_network_on_one_machine_only_is_of_no_use():
    links = {"alpha": two_networks("alpha"), "beta": {"eth0": two_networks("beta")["eth0"]}}
    assert ids(pair(links=links.get)) == []


def test_traffic_beside_an_exchange_that_costs_nothing_is_not_mentioned():
    assert ids(pair(exchange=0.01, foreign=100e6, rates=(90_000.0, 90_000.0))) == []


def test_bytes_on_another_interface_are_not_foreign_to_this_one():
    run = pair(
        interfaces=lambda rate: (
            lambda second: {
                **carried(rate)(second),
                **carried(5 * rate, "docker0")(second),
            }
        )
    )
    assert ids(run) == []


def test_a_slow_link_over_a_short_way_is_not_called_far():
    assert "latency_bound" not in ids(far_apart(0.005))
