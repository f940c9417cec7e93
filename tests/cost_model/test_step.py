"""Links, buckets and steps by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.cost_model.cluster import (
    BUSY,
    MOST_LOCAL_STEPS,
    Cluster,
    choices,
    exact_exchange,
    exchange_by,
    step_on,
)
from unisono.cost_model.devices import DEVICES, device_called
from unisono.cost_model.exchange import (
    Exchange,
    Link,
    cheaper_phases,
    gathered,
    nominal_link,
    quantized_bytes,
    ring_bytes,
)
from unisono.cost_model.probe_results import Gradient
from unisono.cost_model.run_cost import Option, least_drastic, why_not
from unisono.cost_model.step import (
    ComputeTimes,
    StepCost,
    arrivals,
    buckets_of,
    filled,
    ready_times,
    step_of,
)
from unisono.cost_model.strategies import STRATEGIES
from unisono.errors import ConfigError

MB = 1 << 20
WORK = ComputeTimes(forward=1.0, backward=2.0, optimizer=0.1, other=0.1)


def packed_exchange(size, cluster, bits, phases=0):
    return exchange_by(STRATEGIES["compressed"], size, cluster, bits=bits, phases=phases)


def local_exchange(size, cluster, every, bits):
    return exchange_by(STRATEGIES["diloco"], size, cluster, bits=bits, every=every)


def rare_exchange(size, cluster, work):
    return choices(size, cluster, work)[-1]


def test_a_link_takes_its_latency_for_each_message_and_nothing_for_nothing():
    link = Link(1000.0, latency=0.5)
    assert link.seconds(2000) == 2.5
    assert link.seconds(2000, messages=3) == 3.5
    assert link.seconds(0) == 0.0
    assert nominal_link(100e6).bytes_per_second == pytest.approx(11.75e6)


def test_bytes_by_hand():
    assert ring_bytes(100, 4) == pytest.approx(600)
    assert ring_bytes(100, 2) == 400
    assert ring_bytes(100, 1) == 0
    assert quantized_bytes(512, bits=8) == 512 + 8 * 2
    assert quantized_bytes(513, bits=4) == 256.5 + 9 * 2
    assert quantized_bytes(100, bits=16) == 200 + 2 * 2
    assert gathered(100.0, senders=4) == 300
    assert gathered(100.0, senders=1) == 0


def test_buckets_fill_up_one_after_the_other():
    sizes = buckets_of(60 * MB, bucket_mb=25)
    assert sizes == [25 * MB, 25 * MB, 10 * MB]
    assert ready_times(sizes, backward=6.0) == pytest.approx([2.5, 5.0, 6.0])
    assert buckets_of(100, bucket_mb=25) == [100]
    assert buckets_of(0, bucket_mb=25) == []


def test_a_bucket_waits_until_it_is_full_and_until_the_link_is_free():
    link = Link(10.0)
    assert arrivals([1.0, 2.0, 9.0], [20, 20, 10], link) == [3.0, 5.0, 10.0]
    assert arrivals([1.0, 2.0, 3.0], [20, 20, 10], link) == [3.0, 5.0, 6.0]


@given(
    backward=st.floats(0.01, 10),
    rate=st.floats(1e6, 1e10),
    bucket=st.floats(0.5, 100),
    size=st.integers(1, 10**9),
)
def test_a_step_is_never_shorter_than_computing_or_exchange(backward, rate, bucket, size):
    work = ComputeTimes(forward=backward / 2, backward=backward)
    exchange, link = Exchange("ring", float(size)), Link(rate)
    step = step_of(work, exchange, link, gradient_bytes=size, bucket_mb=bucket)
    assert step.seconds >= work.seconds * (1 - 1e-9)
    assert step.seconds >= size / rate * (1 - 1e-9)
    assert step.seconds <= (work.seconds + size / rate) * (1 + 1e-9)
    assert step.hidden >= 0
    assert step.exposed + step.hidden == pytest.approx(size / rate, rel=1e-6, abs=1e-9)


def test_without_overlap_everything_is_waited_for():
    exchange = Exchange("plain", 300.0, overlaps=False)
    step = step_of(WORK, exchange, Link(100.0), gradient_bytes=300)
    assert step == StepCost(seconds=pytest.approx(6.2), computing=3.2, exposed=3.0, hidden=0.0)
    assert step.waiting == pytest.approx(3 / 6.2)


def test_behind_the_computing_only_what_is_late_is_waited_for():
    link = Link(100.0)
    hidden = Exchange("rare", 300.0, every=2, local=True)
    assert step_of(WORK, hidden, link, gradient_bytes=300).exposed == 0
    late = Exchange("rare", 1000.0, every=2, local=True)
    step = step_of(WORK, late, link, gradient_bytes=300)
    assert step.exposed == pytest.approx((10 - 6.4) / 2)


def test_one_process_exchanges_nothing():
    cluster = Cluster(1, 1, Link(1.0))
    step = step_on(cluster, WORK, exact_exchange(10**6, cluster), 10**6)
    assert step == StepCost(pytest.approx(3.2), pytest.approx(3.2), 0.0, 0.0)


def test_the_rare_exchange_is_the_least_rare_that_hides():
    cluster = Cluster(2, 1, Link(1.2e6))
    exchange = rare_exchange(80_000_000, cluster, WORK)
    seconds = cluster.link.seconds(exchange.card_bytes) / BUSY
    assert (exchange.every - 1) * WORK.seconds < seconds <= exchange.every * WORK.seconds
    assert step_on(cluster, WORK, exchange, 80_000_000).exposed == 0
    slower = rare_exchange(80_000_000, Cluster(2, 1, Link(2.334e5)), WORK)
    assert slower.every == 68  # 67 would do, but fragments would be at unequal distances
    nearly_none = rare_exchange(80_000_000, Cluster(2, 1, Link(1e3)), WORK)
    assert nearly_none.every == MOST_LOCAL_STEPS
    asked = local_exchange(80_000_000, cluster, 3, 8)
    assert (asked.every, asked.bits, asked.strategy) == (3, 8, "diloco")
    assert step_on(cluster, WORK, asked, 80_000_000).exposed > 0


def test_choices_send_less_and_less():
    cluster = Cluster(2, 1, nominal_link(100e6))
    found = choices(60_000_000, cluster, WORK)
    per_update = [one.card_bytes / one.every for one in found]
    assert per_update == sorted(per_update, reverse=True)
    assert [one.exact for one in found] == [True, False, False, False, False]
    assert len(choices(60_000_000, cluster.alone(), WORK)) == 1


def test_with_many_machines_packed_numbers_that_everybody_gets_are_no_gain():
    # A ring of four sends 1.5 times the gradient, and so do three messages of half its size,
    # seven of 8 bits and fifteen of 4.
    for bits, machines in ((16, 4), (8, 8), (4, 16)):
        for count in (machines - 1, machines):
            cluster = Cluster(count, 1, nominal_link(100e6))
            packed = packed_exchange(60_000_000, cluster, bits, phases=1).card_bytes
            ring = exact_exchange(60_000_000, cluster).card_bytes
            assert (packed > ring) == (count == machines)


@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize("machines", [2, 3, 4, 6, 8, 16, 128, 1000])
def test_a_sum_in_two_phases_never_sends_more_than_twice_what_two_machines_send(machines, bits):
    size = 60_000_000
    pair = packed_exchange(size, Cluster(2, 1, nominal_link(1e9)), bits)
    many = packed_exchange(size, Cluster(machines, 1, nominal_link(1e9)), bits)
    assert pair.card_bytes == quantized_bytes(size, bits)
    share = 2 * (machines - 1) / machines
    assert many.card_bytes == pytest.approx(share * pair.card_bytes)
    assert many.card_bytes < 2 * pair.card_bytes
    assert (pair.phases, many.phases) == (1, 1 if machines == 2 else 2)


def test_one_phase_is_taken_where_its_latency_weighs_more_than_its_bytes():
    link = Link(1e6, latency=0.1)
    # Three machines send 2 or 4/3 of a message: two phases save 2/3 s for each 1e6 bytes.
    assert cheaper_phases(0.15e6 - 1, 3, link, messages=1) == 1
    assert cheaper_phases(0.15e6 + 1, 3, link, messages=1) == 2
    # Five buckets have five latencies more.
    assert cheaper_phases(0.15e6 + 1, 3, link, messages=5) == 1
    assert cheaper_phases(0.75e6 + 1, 3, link, messages=5) == 2
    assert cheaper_phases(1e9, 2, link, messages=1) == 1


def test_choices_take_the_phases_that_are_cheaper_or_those_that_were_asked_for():
    near, far = (Cluster(4, 1, Link(1e8, latency)) for latency in (1e-4, 10.0))
    for cluster, phases in ((near, 2), (far, 1)):
        exact, *others = choices(60_000_000, cluster, WORK)
        assert exact.phases == 1
        assert {one.phases for one in others} == {phases}
        asked = choices(60_000_000, cluster, WORK, phases=3 - phases)
        assert {one.phases for one in asked[1:]} == {3 - phases}


def test_a_machine_sends_its_packed_sum_once_however_many_processes_it_has():
    link, size = nominal_link(100e6), 60_000_000
    for exchange in (
        lambda cluster: packed_exchange(size, cluster, 8),
        lambda cluster: rare_exchange(size, cluster, WORK),
    ):
        single, full = (exchange(Cluster(2, workers, link)) for workers in (1, 4))
        assert full.card_bytes == single.card_bytes
        assert single.inside_bytes == 0
        # 2 (n - 1)/n times four bytes for each number, within the machine.
        assert full.inside_bytes == 6 * size
    local = packed_exchange(size, Cluster(1, 4, link), 8)
    assert (local.card_bytes, local.inside_bytes) == (1.5 * quantized_bytes(size, 8), 0)


def test_buckets_are_filled_with_whole_gradients_as_they_come():
    seen = [Gradient(MB // 2, 0.1), Gradient(MB, 0.2), Gradient(3 * MB, 0.5)]
    seen += [Gradient(MB, 0.6), Gradient(9 * MB, 1.0)]
    sizes, times = filled(seen, bucket_mb=2, backward=10.0)
    assert sizes == [9 * MB // 2, 10 * MB]
    assert times == [5.0, 10.0]
    # However small the buckets, the largest gradient is not cut.
    assert filled(seen, 0.001, 10.0)[0] == [gradient.bytes for gradient in seen]


def test_a_large_gradient_that_comes_last_is_waited_for():
    exchange, link = Exchange("ring", 10.0 * MB), Link(10.0 * MB)
    even = [Gradient(MB, (n + 1) / 10) for n in range(10)]
    last = [*even[:5], Gradient(5 * MB, 1.0)]
    waits = [
        step_of(WORK, exchange, link, gradient_bytes=10 * MB, bucket_mb=1, gradients=seen)
        for seen in (even, last)
    ]
    assert [step.exposed for step in waits] == pytest.approx([0.1, 0.5])


def test_words_that_are_late_do_not_hold_up_the_others():
    exchange, link = Exchange("ring", 10.0 * MB), Link(10.0 * MB)
    others = [Gradient(MB, (n + 1) / 5) for n in range(5)]
    seen = [*others, Gradient(5 * MB, 1.0, embedding=True)]
    late = replace(exchange, delays_embedding=True)
    waits = [
        step_of(WORK, one, link, gradient_bytes=10 * MB, bucket_mb=1, gradients=seen)
        for one in (exchange, late)
    ]
    assert [step.exposed for step in waits] == pytest.approx([0.6, 0.1])


def test_machines_that_mostly_wait_are_warned_of():
    assert "50% of the time" in why_not(2, 1.5, StepCost(2.0, 1.0, 1.0, 0.0).waiting)


def test_a_way_that_loses_in_every_step_is_better_than_one_that_takes_longer_all_told():
    exact, packed, apart = (
        Option(*row) for row in ((1.05, 0.05, False), (1.1, 0.0, False), (1.0, 0.0, True))
    )
    assert least_drastic([exact, packed, apart]) == 0
    assert least_drastic([exact, Option(1.04, 0.0, apart=False), apart]) == 1
    # Going apart for five per cent is not worth it, for twenty it is.
    assert least_drastic([exact, apart]) == 0
    assert least_drastic([Option(1.25, 0.2, apart=False), apart]) == 1


def test_no_way_is_taken_that_is_much_slower_than_another():
    ways = [Option(1.4, 0.3, apart=False), Option(1.2, 0.2, apart=False)]
    apart = Option(1.25, 0.0, apart=True)
    assert least_drastic([*ways, Option(1.15, 0.15, apart=False), apart]) == 1
    assert least_drastic([*ways, Option(1.0, 0.15, apart=False), apart]) == 2


def test_devices_are_found_however_they_are_written():
    assert device_called("rtx 4090") is DEVICES["RTX4090"]
    assert device_called("v 100") is DEVICES["V100"]
    with pytest.raises(ConfigError, match="no device is called K80"):
        device_called("K80")


def test_a_device_reaches_a_share_of_its_peak_or_what_its_memory_feeds():
    # Of 125 TFLOP/s 40 % would be 50; the memory of 900 GB/s feeds 9.
    assert device_called("V100").field_rate("fp16") == pytest.approx(900e9 * 10)
    assert device_called("V100").field_rate("fp32") == pytest.approx(15.7e12 * 0.40)
    for device in DEVICES.values():
        assert device.field_rate("fp32") <= device.field_rate("fp16") < 0.41 * device.half
        assert device.rate("fp32") <= device.rate("fp16") < device.half


@pytest.mark.parametrize(("name", "known"), [("V100", 0), ("P100", 0), ("T4", 0), ("L4", 1)])
def test_old_devices_know_no_bf16(name, known):
    if known:
        assert device_called(name).rate("bf16") == device_called(name).rate("fp16")
        return
    with pytest.raises(ConfigError, match=f"a {name} cannot compute in bf16") as caught:
        device_called(name).rate("bf16")
    assert "use fp16" in caught.value.fix


def test_a_machine_that_sums_within_itself_first_takes_its_time_for_it():
    size, work = 50 * MB, ComputeTimes(forward=1.0, backward=2.0)  # eight buckets of 25 MB
    # For each number of four processes 6 bytes pass, here in a second for all numbers.
    slow, quick = (Cluster(2, 4, Link(1e12), Link(rate)) for rate in (6 * size, 1e12))
    for exchange in (packed_exchange(size, slow, 8), local_exchange(size, slow, 4, 8)):
        assert step_on(quick, work, exchange, size).exposed == pytest.approx(0, abs=1e-3)
        # All hide behind the backward pass but for the last bucket.
        step = step_on(slow, work, exchange, size)
        assert step.exposed == pytest.approx(1 / 8, abs=1e-3)
        assert step.hidden == pytest.approx(7 / 8, abs=1e-3)
    # With a second between machines too, the last bucket takes the one and then the other.
    both = Cluster(2, 4, Link(quantized_bytes(size, 8)), Link(6 * size))
    step = step_on(both, work, packed_exchange(size, both, 8), size)
    assert step.exposed == pytest.approx(2 / 8, abs=1e-3)
