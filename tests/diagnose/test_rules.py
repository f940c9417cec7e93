"""Each finding: once where it belongs, and not in a healthy run."""

import math
from dataclasses import replace
from random import Random

import msgspec
import pytest

from diagnose.asking import all_ids, ids, settings
from diagnose.made_runs import (
    BEGAN,
    CONFIG,
    CORPUS,
    curve,
    healthy_run,
    now,
    sample,
    saved,
    scored,
    start,
    step,
    team,
)
from diagnose.made_samples import (
    burst,
    far_apart,
    pair,
    sampled,
    two_networks,
)
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.rules import RULES
from unisono.records.events import WEIGHTS_DIFFER, Lost, Warned

LOST = Lost(time=BEGAN + 9, step=9, rank=1, host="beta", pid=7, how="process died")


def steps(**parts):
    return {0: tuple(step(n, **parts) for n in range(1, 201))}


def with_losses(loss_of):
    return {0: tuple(step(n, loss=loss_of(n)) for n in range(1, 201))}


def clipped(norm):
    config = {**CONFIG, "train": {**CONFIG["train"], "clip_norm": 1.0}}
    return healthy_run(config=config, ranks=steps(gradient_norm=norm))


def slow_saves():
    quick = tuple(
        step(n, seconds=0.7, time=BEGAN + n, forward=0.2, backward=0.3) for n in range(1, 201)
    )
    return healthy_run(
        ranks={0: quick}, saves=tuple(saved(n, 10.0) for n in (50, 100, 150, 200))
    )


def slow_validations():
    quick = tuple(
        step(n, seconds=0.5, time=BEGAN + n, forward=0.2, backward=0.2) for n in range(1, 201)
    )
    slow = tuple(_seconds(event, 10.0) for event in curve([2.5] * 8))
    return healthy_run(ranks={0: quick}, validations=slow)


def _seconds(event, seconds):
    return msgspec.structs.replace(event, seconds=seconds)


def late(rank, n):
    return {"backward": 0.5 if rank else 0.1, "exchange": 0.02 if rank else 0.42}


def padded():
    made = healthy_run().ranks[0]
    return healthy_run(
        ranks={0: tuple(msgspec.structs.replace(s, positions=4000) for s in made)}
    )


def empty_handed():
    made = curve([2.5] * 5)
    last = msgspec.structs.replace(made[-1], empty=30)
    return healthy_run(validations=(*made[:-1], last))


def recorded_lengths(translated):
    made = curve([2.5] * 5)
    lengths = {"translation_length": translated, "reference_length": 4000}
    return healthy_run(validations=(*made[:-1], msgspec.structs.replace(made[-1], **lengths)))


STUCK = "ein Mann in einem Hemd in einem Hemd in einem Hemd in einem Hemd ."


def with_samples(translations, reference="ein Mann in einem roten Hemd steht dort ."):
    """A validation for each of these translations of one of its two samples."""
    made = curve([2.5] * len(translations))
    samples = {
        event.step: (sample(), sample(reference=reference, translation=text))
        for event, text in zip(made, translations, strict=True)
    }
    return healthy_run(validations=made, samples=samples)


def corpus_with(**changes):
    return healthy_run(corpus={**CORPUS, **changes})


def same_test_as_valid():
    text = {"name": "valid.en", "bytes": 9, "lines": 9, "sha256": "7"}
    held = [{"split": split, "source": text, "target": text} for split in ("valid", "test")]
    return corpus_with(inputs=[*CORPUS["inputs"], *held])


DRIFTED = Warned(
    time=BEGAN,
    step=100,
    message=f"at step 100 {WEIGHTS_DIFFER}: rank 1 in encoder.0.attention.query.weight",
)


SICK = {
    "damaged_files": lambda: healthy_run(damaged=("environment.json cannot be read.",)),
    "missing_ranks": lambda: healthy_run(starts=(start(0, 2), start(1, 2))),
    "lost_ranks": lambda: healthy_run(losses=(LOST,)),
    "skipped_steps": lambda: healthy_run(
        ranks=with_losses(lambda n: math.nan if n == 70 else 3.0)
    ),
    "loss_spike": lambda: healthy_run(
        ranks=with_losses(lambda n: 9.0 if 120 <= n < 125 else 3.0)
    ),
    "straggler": lambda: team(late, ["a", "b"]),
    "slow_direction": lambda: pair(rates=(1000.0, 3500.0)),
    "burst_credits": burst,
    "latency_bound": lambda: far_apart(0.05),
    "foreign_traffic": lambda: pair(foreign=100e6),
    "wrong_interface": lambda: pair(links=two_networks),
    "more_machines": lambda: pair(exchange=0.5),
    "stolen_time": lambda: sampled(steal=0.08),
    "memory": lambda: sampled(memory_used=15 * 10**9),
    "oversubscribed": lambda: healthy_run(environment={"cores": 1}),
    "input_bound": lambda: healthy_run(ranks=steps(data=0.3, backward=0.2)),
    "evaluation_cost": slow_validations,
    "checkpoint_cost": slow_saves,
    "padding": padded,
    "always_clipped": lambda: clipped(3.0),
    "empty_translations": empty_handed,
    "drifted_ranks": lambda: healthy_run(warnings=(DRIFTED,)),
    "short_translations": lambda: recorded_lengths(3000),
    "repeating_translations": lambda: with_samples([STUCK] * 5),
    "test_overlap": lambda: corpus_with(settings={"drop_overlap": False}, kept_overlap=12),
    "warnings": lambda: healthy_run(warnings=(Warned(time=BEGAN, step=1, message="hot"),)),
}


def overflowing(skips, precision, loss=3.0):
    """A run that leaves out its first `skips` updates."""
    made = [
        step(n, loss=loss if n <= skips else 3.0, skipped=n <= skips) for n in range(1, 201)
    ]
    return healthy_run(ranks={0: tuple(made)}, config=settings("train", precision=precision))


def test_overflows_while_fp16_finds_its_scale_are_normal():
    assert ids(overflowing(10, "fp16")) == []
    assert ids(overflowing(10, "fp32")) == ["skipped_steps"]
    assert "skipped_steps" in ids(overflowing(40, "fp16"))
    assert "skipped_steps" in ids(overflowing(1, "fp16", loss=math.nan))


def test_every_rule_has_a_sick_run():
    assert set(SICK) == set(RULES)


@pytest.mark.parametrize("name", SICK)
def test_a_sick_run_is_found_out(name):
    # What happens to a link, both of its machines tell.
    found = all_ids if name == "more_machines" else ids
    assert set(found(SICK[name]())) == {name}


def test_noisy_healthy_runs_raise_no_alarm():
    for seed in range(20):
        random = Random(seed)
        losses = [2.0 + 6.0 * math.exp(-n / 40) + random.gauss(0, 0.15) for n in range(200)]
        norms = [random.uniform(0.2, 1.5) for _ in range(200)]
        made = tuple(step(n + 1, loss=losses[n], gradient_norm=norms[n]) for n in range(200))
        config = {**CONFIG, "train": {**CONFIG["train"], "clip_norm": 1.0}}
        assert ids(healthy_run(config=config, ranks={0: made})) == []


def late_data(rank, n):
    return {"data": 0.4 if rank else 0.0, "backward": 0.1, "exchange": 0.02 if rank else 0.42}


def test_one_process_that_waits_for_its_data_is_told_of_once():
    run = team(late_data, ["a", "b"])
    assert ids(run) == ["straggler"]
    assert "its data came late" in diagnose(run, now()).findings[0].summary
    everybody = team(lambda rank, n: {**late_data(1, n), "exchange": 0.05}, ["a", "b"])
    assert "input_bound" in ids(everybody)


def test_gradients_clipped_now_and_then_are_fine():
    assert ids(clipped(0.9)) == []


def test_a_single_odd_batch_is_no_spike():
    assert ids(healthy_run(ranks=with_losses(lambda n: 9.0 if n == 120 else 3.0))) == []


def test_empty_translations_early_on_are_normal():
    made = tuple(msgspec.structs.replace(v, empty=300) for v in curve([5.0, 4.9]))
    assert "empty_translations" not in ids(healthy_run(validations=made))


@pytest.mark.parametrize("tokens", [3500, 4000, 4400])
def test_translations_of_about_the_right_length_are_fine(tokens):
    assert ids(recorded_lengths(tokens)) == []


def test_short_samples_tell_where_lengths_were_not_recorded():
    made = curve([2.5] * 5)
    short = sample(reference="ein Wort " * 10, translation="ein Wort und noch ein Satz .")
    run = healthy_run(validations=made, samples={made[-1].step: (short,) * 8})
    assert ids(run) == ["short_translations"]
    assert ids(with_samples(["kurz ."] * 5)) == [], "two samples prove nothing"


def test_short_translations_say_what_they_cost():
    (finding,) = diagnose(recorded_lengths(2000), now()).findings
    assert "50 % of the length" in finding.summary
    assert "BLEU by 0.37" in finding.summary


@pytest.mark.parametrize(
    ("translations", "found"),
    [
        ([STUCK, STUCK, STUCK, STUCK, "ein Mann ."], False),
        (["ein Mann .", "gut .", "gut .", "gut .", STUCK], False),
        (["so so so ."] * 5, False),
        (["so so so so ."] * 5, True),
        (["der Mann und der Hund und der Mann und der Vogel ."] * 5, False),
    ],
    ids=["got over it", "once", "three times", "four times", "words that recur"],
)
def test_only_what_keeps_repeating_itself_is_found(translations, found):
    assert ("repeating_translations" in ids(with_samples(translations))) == found


@pytest.mark.parametrize(
    ("counts", "found"),
    [([0, 0, 0, 4, 4], True), ([0, 0, 0, 3, 4], False), ([9, 9, 9, 9, 0], False)],
    ids=["more than one in a hundred", "one in a hundred", "got over it"],
)
def test_repetitions_are_counted_over_all_translations(counts, found):
    # None of the samples shows it, and 300 sentences were translated.
    run = with_samples(["gut ."] * 5)
    pairs = zip(run.validations, counts, strict=True)
    made = tuple(msgspec.structs.replace(v, repeating=number) for v, number in pairs)
    run = replace(run, validations=made)
    assert ids(run) == (["repeating_translations"] if found else [])
    if found:
        assert "1.3 % of the 300 translations" in diagnose(run, now()).findings[0].summary


def test_where_all_were_counted_one_odd_sample_is_no_finding():
    run = with_samples([STUCK] * 5)
    made = tuple(msgspec.structs.replace(v, repeating=1) for v in run.validations)
    assert ids(replace(run, validations=made)) == []


def test_a_young_model_may_stammer_and_leave_things_out():
    stuck = with_samples([STUCK] * 5)
    lengths = {"translation_length": 100, "reference_length": 4000}
    for losses in ([5.0, 4.0, 3.0], [5.0, 4.5, 4.2, 4.0, 3.8]):
        made = tuple(msgspec.structs.replace(v, **lengths) for v in curve(losses))
        assert ids(healthy_run(validations=made, samples=stuck.samples)) == []


def test_a_reference_that_repeats_itself_may_be_translated_so():
    assert ids(with_samples([STUCK] * 5, reference=STUCK)) == []


def test_one_set_for_validation_and_test_is_found():
    assert ids(same_test_as_valid()) == ["test_overlap"]


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"drop_overlap": True}, "kept_overlap": 0},
        {"settings": {"drop_overlap": False}, "kept_overlap": 0},
        {"dropped": {"overlap with valid/test": {"count": 900, "examples": []}}},
        {},
    ],
    ids=["dropped", "none there", "many dropped", "not recorded"],
)
def test_overlap_that_is_not_there_or_was_dropped_is_fine(changes):
    assert ids(corpus_with(**changes)) == []


def test_overlap_that_was_kept_but_not_counted_is_said():
    (finding,) = diagnose(corpus_with(settings={"drop_overlap": False}), now()).findings
    assert "nobody looked for" in finding.summary


def test_sampled_healthy_runs_raise_no_alarm():
    for seed in range(10):
        random = Random(seed)
        rates = [random.uniform(700, 1000), random.uniform(700, 1000)]
        assert ids(pair(exchange=0.3, rates=rates, foreign=random.uniform(0, 2e6))) == []
    assert ids(sampled()) == []


def test_a_quota_is_found_out_as_well():
    found = diagnose(sampled(held_back=lambda second: 0.3 * second), now()).findings
    assert [f.id for f in found] == ["stolen_time"]
    assert "quota" in found[0].summary


def test_a_test_set_translated_as_nothing_is_found():
    made = msgspec.structs.replace(scored(), empty=300)
    for validations in (curve([2.5] * 5), curve([2.5])):
        run = healthy_run(tests=(made,), validations=validations)
        (finding,) = diagnose(run, now()).findings
        assert finding.id == "empty_translations"
        assert finding.summary.startswith("100 % of the translations of the test set")
        assert finding.evidence == ("test set: 300 of 300 sentences at step 200",)


def test_a_test_of_an_older_version_is_found_empty_by_its_lengths():
    made = msgspec.structs.replace(scored(), translation_length=0, reference_length=4000)
    assert ids(healthy_run(tests=(made,))) == ["empty_translations"]
    made = msgspec.structs.replace(scored(), translation_length=0, reference_length=0)
    assert ids(healthy_run(tests=(made,))) == [], "nothing was recorded"


def test_some_empty_lines_in_the_test_of_a_young_model_are_normal():
    made = msgspec.structs.replace(scored(), empty=100)
    assert ids(healthy_run(tests=(made,), validations=curve([2.5]))) == []
    assert ids(healthy_run(tests=(made,))) == ["empty_translations"]
