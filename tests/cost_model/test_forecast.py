"""From measurements to a forecast, with measurements made by hand."""

import msgspec
import pytest

from cost_model.measuring import JOB, MB, configured, process, two
from unisono.cost_model.cluster import MOST_LOCAL_STEPS
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import (
    Gradient,
    OneWay,
    Packing,
    ProbeResults,
    Sum,
    Update,
)
from unisono.cost_model.probe_rounds import rounds_of


def test_a_step_is_computing_and_what_the_backward_pass_does_not_hide():
    found = forecast(two())
    # 40 MB in both directions at 100 MB/s: 0.4 s, of which the backward pass hides 0.2 s less
    # the last bucket, which is ready when it ends.
    assert found.work.seconds == pytest.approx(0.4)
    assert found.link.bytes_per_second == pytest.approx(100 * MB, rel=0.01)
    assert 0.6 < found.chosen.step.seconds < 0.8
    assert found.chosen.step.exposed == pytest.approx(found.chosen.step.seconds - 0.4)
    assert found.chosen.exchange.name == "ddp"


def test_one_machine_alone_has_all_the_work_and_no_exchange():
    found = forecast(two())
    assert found.alone.machines == 1
    # Twice the forward and backward pass, one optimizer.
    assert found.alone.step.seconds == pytest.approx(0.1 + 2 * 0.3)
    assert found.alone.step.exposed == 0
    assert found.chosen.speedup == pytest.approx(0.7 / found.chosen.step.seconds)


def test_a_fast_link_needs_no_stop_sign_and_a_slow_one_does():
    assert forecast(two(rate=10_000 * MB)).stop == ""
    slower = forecast(two(rate=50 * MB))
    assert "slower than one" in slower.stop
    assert slower.advised.exchange.name != "ddp"
    waiting = forecast(two(rate=110 * MB))
    assert waiting.chosen.speedup > 1
    assert "waiting for the network" in waiting.stop


def test_only_a_rare_exchange_hides_a_link_that_is_nearly_none():
    job = msgspec.structs.replace(JOB, updates=100_000, evaluation_every=50_000)
    job = msgspec.structs.replace(job, checkpoint_every=50_000)
    found = forecast(msgspec.structs.replace(two(rate=0.2 * MB), job=job))
    assert found.advised.exchange.strategy == "diloco"
    assert 64 < found.advised.exchange.every <= MOST_LOCAL_STEPS
    assert found.advised.step.exposed == 0
    # However slow it is, machines are not sent farther apart.
    slower = forecast(msgspec.structs.replace(two(rate=0.05 * MB), job=job)).ways[-1]
    assert slower.exchange.every == MOST_LOCAL_STEPS
    assert slower.step.exposed > 0


def test_packing_alone_sends_machines_no_farther_apart_than_they_may_go():
    packings = tuple(Packing(bits, 6e-7, 2e-7) for bits in (16, 8, 4))
    measured = msgspec.structs.replace(
        two(rate=100 * MB, device="cpu", busy=1e-9), packings=packings
    )
    assert 50 < forecast(measured).ways[-1].exchange.every <= MOST_LOCAL_STEPS


def test_only_the_last_micro_batch_can_hide_the_exchange():
    whole = two(rate=200 * MB)
    tail = msgspec.structs.replace(whole, job=msgspec.structs.replace(JOB, tail=0.25))
    assert forecast(tail).chosen.step.exposed > forecast(whole).chosen.step.exposed


def test_a_processor_that_also_sends_computes_more_slowly():
    free = forecast(two(rate=10_000 * MB, device="cpu"))
    busy = forecast(two(rate=10_000 * MB, device="cpu", busy=0.01))
    # 10 ms for 4 MB are 100 ms for 40 MB. Of the two buckets the last, of 13.8 MB, is sent when
    # nothing is computed any more.
    more = busy.chosen.step.seconds - free.chosen.step.seconds
    assert more == pytest.approx(0.1 * 25 * 2**20 / (40 * MB), rel=0.02)
    gpu = forecast(two(rate=10_000 * MB, busy=0.01))
    assert gpu.chosen.step.seconds == pytest.approx(free.chosen.step.seconds)


def test_what_is_waited_for_anyway_costs_the_processor_nothing_more():
    job = msgspec.structs.replace(JOB, strategy="all_reduce")
    free, busy = (
        forecast(msgspec.structs.replace(two(device="cpu", busy=seconds), job=job))
        for seconds in (0.0, 0.01)
    )
    assert free.chosen.step.hidden == 0
    assert busy.chosen.step.seconds == pytest.approx(free.chosen.step.seconds)


def test_the_slowest_process_decides_and_is_named():
    measured = ProbeResults(job=JOB, processes=(process(0), process(1, seconds=0.6)))
    found = forecast(measured)
    assert found.work.seconds == pytest.approx(0.6)
    [note] = found.notes[:1]
    assert "node1 takes 1.50 times as long for its share as node0" in note


def test_the_fastest_machine_is_what_one_alone_is_measured_by():
    # Shares of 1 and 3 s: together 3 s, though the fast one does both in 2 s.
    quick, slow = (Update(t / 3, t * 2 / 3, 0.0) for t in (1.0, 3.0))
    processes = [process(r, updates=(u,) * 5) for r, u in enumerate((slow, quick))]
    found = forecast(ProbeResults(job=JOB, processes=tuple(processes)))
    assert (found.alone.hosts, found.alone.step.seconds) == (("node1",), pytest.approx(2.0))
    assert found.chosen.step.computing == pytest.approx(3.0)
    assert "slower than one" in found.stop
    assert found.advised is found.alone


def many(count, *, slow=(), **changes):
    """So many machines with shares of 0.4 s, or twice that; links of 1.5 times `rate`."""
    times = [0.8 if rank in slow else 0.4 for rank in range(count)]
    processes = [process(rank, seconds=t, **changes) for rank, t in enumerate(times)]
    job = msgspec.structs.replace(JOB, bucket_mb=1.0)
    return ProbeResults(job=job, processes=tuple(processes))


def test_fewer_machines_than_all_may_be_the_fastest():
    found = forecast(many(4, rate=40 * MB))
    # 60 MB at 60 MB/s behind 0.2 s of backward pass; on two machines 40 MB behind 0.4 s.
    two_of_them, three = found.fewer
    assert (two_of_them.machines, three.machines) == (2, 3)
    assert two_of_them.exchange.card_bytes == ring_bytes(10 * MB, 2)
    assert two_of_them.step.computing == pytest.approx(0.1 + 2 * 0.3)
    assert 1 < found.chosen.speedup < two_of_them.speedup
    assert "4 machines are slower than 2" in found.stop
    assert found.chosen in found.ways
    assert forecast(many(4, rate=10_000 * MB)).stop == ""


def test_a_slow_machine_among_three_had_better_stay_out():
    found = forecast(many(3, slow=[1], rate=10_000 * MB))
    # Shares of 0.4, 0.4 and 0.8 s; without the slow one 1.5 times 0.3 and the optimizer.
    assert found.fewer[0].hosts == ("node0", "node2")
    assert found.fewer[0].step.computing == pytest.approx(0.1 + 1.5 * 0.3)
    assert "3 machines are slower than 2" in found.stop
    assert (found.advised.machines, found.advised.hosts) == (2, ("node0", "node2"))


def test_machines_with_unequal_numbers_of_processes_have_unequal_shares():
    places = [("big", 0), ("big", 1), ("big", 2), ("small", 0)]
    four = [process(r, host=h, local_rank=n) for r, (h, n) in enumerate(places)]
    found = forecast(ProbeResults(job=JOB, processes=tuple(four)))
    assert (found.measured.machines, found.measured.workers) == (2, 3)
    # Three processes have 4/3 of their shares each; the one of `small` would have four.
    assert found.alone.hosts == ("big",)
    assert found.alone.step.computing == pytest.approx(0.1 + 4 / 3 * 0.3)
    # A ring of four, whatever machines they are on.
    assert found.ways[0].exchange.card_bytes == ring_bytes(10 * MB, 4)


def test_a_slow_process_among_those_of_a_machine_is_named():
    places = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    four = [
        process(r, host=h, local_rank=n, seconds=0.6 if r == 3 else 0.4)
        for r, (h, n) in enumerate(places)
    ]
    notes = " | ".join(forecast(ProbeResults(job=JOB, processes=tuple(four))).notes)
    assert "b takes 1.50 times as long for its share as a" in notes
    assert "rank 3 takes 1.50 times as long as the fastest process of b" in notes
    assert "rank 2" not in notes


def test_rounds_that_differ_widen_the_interval():
    steady = forecast(two()).chosen.seconds
    shaky = [Update(0.1 + 0.02 * n, 0.2, 0.1) for n in range(5)]
    noisy = forecast(two(updates=tuple(shaky))).chosen.seconds
    assert steady.low < steady.middle < steady.high
    assert noisy.high - noisy.low > 1.2 * (steady.high - steady.low)


def test_hours_and_money_count_evaluations_and_checkpoints():
    measured = msgspec.structs.replace(
        two(rate=10_000 * MB), evaluation_seconds=90.0, checkpoint_seconds=18.0
    )
    found = forecast(measured, price=2.0)
    step = found.chosen.step.seconds
    assert found.chosen.hours == pytest.approx((3600 * step + 4 * 90 + 2 * 18) / 3600)
    assert found.chosen.money == pytest.approx(found.chosen.hours * 2 * 2.0)


def test_directions_burst_credit_and_memory_are_told():
    measured = ProbeResults(
        job=JOB,
        processes=(process(0, peak_bytes=95 * 10**8), process(1)),
        pairs=(OneWay(0, 1, 12 * MB), OneWay(1, 0, 1.2 * MB)),
        pulses=(125 * MB,) * 4 + (12 * MB,) * 8,
    )
    notes = " | ".join(forecast(measured).notes)
    assert "node1 sends to node0 at 10% of the rate in the other direction" in notes
    assert "fell from 1,000 to 96 Mbit/s" in notes
    assert "memory of node0 is nearly full: 95%" in notes


def test_a_healthy_pair_is_told_nothing():
    measured = ProbeResults(
        job=JOB,
        processes=(process(0, rate=10_000 * MB), process(1, rate=10_000 * MB)),
        pairs=(OneWay(0, 1, 12 * MB), OneWay(1, 0, 11 * MB)),
        pulses=(12 * MB, 11 * MB, 12 * MB, 12 * MB),
    )
    assert forecast(measured).notes == ()


def test_processes_of_one_machine_share_its_inside():
    pair = (process(0), process(1, local_rank=1, host="node0"))
    found = forecast(ProbeResults(job=JOB, processes=pair))
    assert (found.measured.machines, found.measured.workers) == (1, 2)
    assert [way.exchange.name for way in found.ways] == ["ddp"]
    assert found.chosen.step.seconds == found.alone.step.seconds
    assert found.stop == ""


def test_the_smallest_time_of_a_sum_is_that_of_the_wire():
    prompt = rounds_of(two())[0]
    waited = process(1, sums=(Sum(4 * MB, 9.0, 0.0),) * 5)
    found = rounds_of(ProbeResults(job=JOB, processes=(process(0), waited)))[0]
    assert found.link == prompt.link


def test_what_is_configured_is_what_is_judged():
    assert configured("compressed", 4).chosen.exchange.name == "4-bit"
    assert configured("ddp", 4).chosen.exchange.name == "ddp"
    plain = configured("all_reduce").chosen
    assert plain.exchange.name == "all_reduce"
    assert plain.step.hidden == 0
    assert plain.step.seconds > configured("ddp").chosen.step.seconds


def test_auto_is_judged_by_what_it_will_choose():
    found = configured("auto", rate=100 * MB)
    assert found.chosen.exchange.strategy == "compressed"
    assert found.stop == ""
    # 5 MB in 4 bits take 5 s: no backward pass hides that, thirteen updates do.
    slow = configured("auto", rate=1 * MB).chosen
    assert slow.exchange.strategy == "diloco"
    assert 12 <= slow.exchange.every <= 20
    assert slow.step.exposed == 0


def test_the_shortest_update_says_how_rare_an_exchange_must_be():
    updates = (Update(0.1, 0.2, 0.1), *(Update(0.3, 0.6, 0.1),) * 4)
    steady, shaky = (
        configured("auto", rate=1 * MB, **changes).chosen
        for changes in ({}, {"updates": updates})
    )
    assert shaky.exchange.every == steady.exchange.every


def test_what_is_asked_of_diloco_is_judged_and_a_better_way_is_told():
    job = msgspec.structs.replace(JOB, strategy="diloco", bits=8, local_steps=2)
    found = forecast(msgspec.structs.replace(two(rate=1 * MB), job=job))
    assert found.chosen.exchange.name == "diloco, every 2"
    assert found.chosen.exchange.bits == 8
    assert found.chosen.step.exposed > 0
    assert found.advised.exchange.every > 10


def buckets(latency, rate=100 * MB, **job):
    measured = two(rate=rate)
    changed = msgspec.structs.replace(JOB, **{"strategy": "auto", **job})
    return forecast(msgspec.structs.replace(measured, job=changed, latency=latency))


def test_auto_takes_small_buckets_where_messages_cost_little_and_large_ones_where_much():
    prompt, distant = (buckets(latency).ways[0] for latency in (1e-5, 0.03))
    assert prompt.bucket_mb < 4
    assert distant.bucket_mb > prompt.bucket_mb
    usual = buckets(1e-5, strategy="ddp").ways[0]
    assert usual.bucket_mb == 25.0
    assert prompt.step.seconds < usual.step.seconds
    assert buckets(1e-5, bucket_mb=7.0).ways[0].bucket_mb == 7.0  # as it is set


def test_better_buckets_are_told_unless_somebody_wants_these():
    told = buckets(1e-5, strategy="ddp").notes
    assert any("with `sync.bucket_mb = " in note for note in told)
    assert buckets(1e-5, strategy="ddp", bucket_mb=25.0).notes == ()
    assert buckets(1e-5).notes == ()


def test_no_bucket_is_smaller_than_the_gradient_that_comes_last():
    even = tuple(Gradient(4 * MB, (n + 1) / 10) for n in range(10))
    last = (*even[:5], Gradient(20 * MB, 1.0))
    waits = [
        buckets(1e-5, rate=400 * MB, gradients=seen).ways[0].step.exposed
        for seen in (even, last)
    ]
    assert waits == pytest.approx([0.01, 0.05], rel=0.1)  # 4 and 20 MB at 400 MB/s


def test_packing_takes_time_of_the_processor_that_computes():
    packings = tuple(Packing(bits, 3e-9, 1e-9) for bits in (16, 8, 4))
    cheap = two(rate=10_000 * MB, device="cpu", busy=1e-9)
    dear = msgspec.structs.replace(cheap, packings=packings)
    # Each of ten million numbers is packed once and added twice on two processes.
    before, after = (forecast(one).ways[2].step.seconds for one in (cheap, dear))
    assert after - before == pytest.approx(10 * MB * 5e-9, rel=0.02)
    assert forecast(dear).ways[0].step == forecast(cheap).ways[0].step


def test_what_a_machine_sums_within_itself_takes_its_processor_in_every_update():
    four = [
        process(r, host=f"node{r // 2}", local_rank=r % 2, device="cpu", busy=0.01)
        for r in range(4)
    ]
    found = forecast(ProbeResults(job=JOB, processes=tuple(four)))
    rare = found.ways[-1]
    assert rare.exchange.local
    # Each of two passes on 40 MB in every update, and 10 ms went for 6 MB.
    assert rare.step.computing - found.work.seconds > 40 / 6 * 0.01


def test_a_way_that_costs_the_processor_too_much_does_not_hide_the_link():
    packings = tuple(Packing(bits, 6e-9, 2e-9) for bits in (16, 8, 4))
    cheap = msgspec.structs.replace(
        two(rate=100 * MB, device="cpu", busy=1e-9),
        job=msgspec.structs.replace(JOB, strategy="auto"),
    )
    dear = msgspec.structs.replace(cheap, packings=packings)
    assert forecast(cheap).chosen.exchange.strategy == "compressed"
    # 10 ns for each of ten million numbers are a quarter of the computing: local steps have
    # to be many not for the network, but for the processor.
    chosen = forecast(dear).chosen
    assert chosen.exchange.every == 8
    assert chosen.step.seconds == pytest.approx(0.4 + 0.1 / 8, rel=0.01)
    outer = forecast(msgspec.structs.replace(dear, outer_seconds=10e-9)).chosen
    assert outer.exchange.every == 16


def test_machines_do_not_go_apart_for_a_few_percent():
    packings = tuple(Packing(bits, 1.5e-9, 0.5e-9) for bits in (16, 8, 4))
    measured = msgspec.structs.replace(
        two(rate=100 * MB, device="cpu", busy=1e-9),
        job=msgspec.structs.replace(JOB, strategy="auto"),
        packings=packings,
    )
    chosen, *_, rare = forecast(measured).chosen, *forecast(measured).ways
    assert chosen.exchange.strategy == "compressed"
    assert rare.exchange.local
    assert 0.9 < rare.step.seconds / chosen.step.seconds < 0.97


def test_a_processor_that_is_kept_busy_by_the_exact_exchange_is_no_ideal():
    # 0.1 s for 4 MB are 1 s for 40 MB: beside that, any exchange seems to lose nothing.
    slow = two(rate=20 * MB, device="cpu", busy=0.1)
    found = forecast(
        msgspec.structs.replace(slow, job=msgspec.structs.replace(JOB, strategy="auto"))
    )
    fastest = min(way.step.seconds for way in found.ways)
    assert found.chosen.step.seconds < 1.05 * fastest


def sold_as(*mbit, rate):
    """Machines with interfaces of these names, which all deliver `rate` to each other."""
    places = range(len(mbit))
    processes = [
        process(r, rate=10_000 * MB, interface="eth0", nominal_mbit=mbit[r]) for r in places
    ]
    pairs = [OneWay(a, b, rate) for a in places for b in places if a != b]
    found = forecast(ProbeResults(job=JOB, processes=tuple(processes), pairs=tuple(pairs)))
    return [note for note in found.notes if "nominal" in note]


def test_an_interface_that_does_not_deliver_what_it_is_sold_as_is_told():
    [note] = sold_as(1000, 1000, rate=94 * MB / 8)
    assert "node0 (eth0) is nominally 1,000 Mbit/s and delivers 94" in note
    assert "node1 (eth0)" in note
    assert sold_as(1000, 1000, rate=700 * MB / 8) == []
    assert sold_as(0, 0, rate=94 * MB / 8) == []  # not known


def test_nobody_sends_faster_than_the_other_receives():
    assert sold_as(10_000, 100, rate=94 * MB / 8) == []
    [note] = sold_as(10_000, 1000, rate=94 * MB / 8)
    assert "node1 (eth0) is nominally 1,000" in note
    assert "node0" not in note
