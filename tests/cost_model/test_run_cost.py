"""The whole run counts, not only its usual update."""

import msgspec
import pytest

from cost_model.measuring import JOB, MB, process, two
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import ProbeResults


def test_machines_that_went_apart_meet_before_each_evaluation_and_checkpoint():
    job = msgspec.structs.replace(JOB, strategy="diloco", bits=4, local_steps=30)
    found = forecast(msgspec.structs.replace(two(rate=1 * MB), job=job))
    # Weights and two moments of ten million, in 16 bits each, at 1 MB/s; of four evaluations
    # two are at the updates of the two checkpoints.
    seconds = 3600 * found.chosen.step.seconds + 4 * 60
    assert found.chosen.hours == pytest.approx(seconds / 3600, rel=0.01)
    # Moving averages travel in full: 40 MB more each time.
    more = msgspec.structs.replace(job, averages=True)
    averaged = forecast(msgspec.structs.replace(two(rate=1 * MB), job=more)).chosen
    assert averaged.hours - found.chosen.hours == pytest.approx(4 * 40 / 3600)


def test_meetings_count_for_the_stop_sign_and_for_what_is_advised():
    job = msgspec.structs.replace(JOB, strategy="diloco", bits=4, local_steps=30)
    often = msgspec.structs.replace(job, evaluation_every=100, checkpoint_every=50)
    rarely, found = (
        forecast(msgspec.structs.replace(two(rate=1 * MB), job=one)) for one in (job, often)
    )
    assert rarely.stop == ""
    assert rarely.chosen.speedup > 1
    # Every 50 updates of 0.4 s a minute of waiting; alone an update takes 0.7 s.
    assert found.chosen.waiting == pytest.approx(60.4 / (60.4 + 50 * 0.4), rel=0.02)
    assert "slower than one" in found.stop
    assert found.advised is found.alone
    assert any("machines exchange all weights 72 times" in note for note in found.notes)


def test_meetings_can_be_what_is_waited_for_too_long():
    job = msgspec.structs.replace(JOB, strategy="diloco", bits=4, local_steps=30)
    job = msgspec.structs.replace(job, evaluation_every=300, checkpoint_every=300)
    found = forecast(msgspec.structs.replace(two(rate=1 * MB), job=job))
    assert found.chosen.speedup > 1
    assert found.chosen.step.waiting == 0
    assert "33% of the time would be spent waiting for the network" in found.stop


def test_auto_does_not_send_machines_apart_that_meet_too_often():
    job = msgspec.structs.replace(
        JOB, strategy="auto", updates=100_000, checkpoint_every=10_000
    )
    seldom, often = (
        forecast(
            msgspec.structs.replace(
                two(rate=14 * MB),
                job=msgspec.structs.replace(job, evaluation_every=n),
            )
        ).chosen.exchange.name
        for n in (10_000, 30)
    )
    assert (seldom, often) == ("diloco, every 2", "4-bit")


def test_residuals_that_are_saved_count():
    job = msgspec.structs.replace(JOB, strategy="compressed", bits=8)
    saved, never = (
        forecast(msgspec.structs.replace(two(), job=one)).chosen
        for one in (job, msgspec.structs.replace(job, checkpoint_every=0))
    )
    # 40 MB of the other process at 100 MB/s, twice.
    assert (saved.hours - never.hours) * 3600 == pytest.approx(0.8)
    assert saved.waiting > never.waiting
    assert saved.step == never.step


def test_updates_that_are_made_together_count_as_what_they_take():
    job = msgspec.structs.replace(JOB, strategy="diloco", bits=4, local_steps=30)
    mixed = msgspec.structs.replace(job, warmup_steps=1000, closing_steps=200)
    local, found = (
        forecast(msgspec.structs.replace(two(rate=1 * MB), job=one)) for one in (job, mixed)
    )
    packed = next(way for way in found.ways if way.exchange.name == "4-bit").step
    assert found.chosen.step == local.chosen.step
    assert found.chosen.course.together == 1200
    assert found.chosen.course.together_seconds == pytest.approx(packed.seconds)
    # Apart from update 1,000 to 3,400: they meet after 1,800, 2,700 and 3,400; the checkpoint
    # of the end has residuals, 40 MB of them.
    seconds = 2400 * local.chosen.step.seconds + 1200 * packed.seconds + 3 * 60 + 40
    assert found.chosen.hours == pytest.approx(seconds / 3600, rel=1e-3)
    assert local.stop == ""
    assert found.stop
    [note] = [note for note in found.notes if "made together" in note]
    assert "1,000 updates at the beginning and 200 at the end" in note


def test_a_run_without_a_known_end_is_judged_by_its_update():
    endless = msgspec.structs.replace(
        JOB, updates=0, strategy="diloco", bits=4, local_steps=30, warmup_steps=1000
    )
    chosen = forecast(msgspec.structs.replace(two(rate=1 * MB), job=endless)).chosen
    assert chosen.hours == 0
    assert chosen.update_seconds == chosen.step.seconds
    assert chosen.waiting == chosen.step.waiting


def test_powersgd_is_judged_by_what_it_sends_and_not_as_ddp():
    job = msgspec.structs.replace(JOB, strategy="powersgd", low_rank_numbers=MB // 2)
    job = msgspec.structs.replace(job, warmup_steps=600)
    found = forecast(msgspec.structs.replace(two(rate=10 * MB), job=job))
    chosen, exact = found.chosen, found.ways[0]
    assert (chosen.exchange.name, chosen.exchange.strategy) == ("powersgd", "powersgd")
    assert chosen.exchange.card_bytes == ring_bytes(MB // 2, 2)
    # 2 MB at 10 MB/s, none of it hidden.
    assert chosen.step.exposed == pytest.approx(0.2)
    assert chosen.course.together_seconds == pytest.approx(exact.step.seconds)
    seconds = 600 * exact.step.seconds + 3000 * chosen.step.seconds + 2 * 4
    assert chosen.hours == pytest.approx(seconds / 3600, rel=0.01)
    assert any("600 updates at the beginning are exchanged exactly" in n for n in found.notes)
    # What it computes besides is waited for as well.
    dear = msgspec.structs.replace(
        two(rate=10 * MB, device="cpu", busy=1e-9), job=job, narrowing_seconds=0.5
    )
    assert forecast(dear).chosen.step.seconds == pytest.approx(0.4 + 0.2 + 0.5, rel=0.01)
    # Three sums of two messages for each of two buckets, 10 ms each; without these the sums
    # that were measured were a little faster.
    late = msgspec.structs.replace(two(rate=10 * MB), job=job, latency=0.02)
    assert forecast(late).chosen.step.exposed == pytest.approx(0.19 + 12 * 0.01)


def test_what_spares_nothing_on_one_machine_is_said_not_to_be_judged():
    pair = (process(0), process(1, local_rank=1, host="node0"))
    job = msgspec.structs.replace(JOB, strategy="powersgd", low_rank_numbers=MB)
    [note] = forecast(ProbeResults(job=job, processes=pair)).notes
    assert '"powersgd" has no network to save' in note
