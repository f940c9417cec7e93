"""No two pieces of advice about a run oppose each other."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from diagnose.asking import answer, settings
from diagnose.made_runs import curve, ended, healthy_run, now, saved, scored, start, step, team
from diagnose.made_samples import (
    burst,
    far_apart,
    gpu,
    pair,
    quick_steps,
    sampled,
    two_networks,
    uneven,
)
from report.rich_run import rich_run
from unisono.diagnose.case import open_case
from unisono.diagnose.diagnosis import diagnose
from unisono.records.view import read_run

GOLDEN = Path(__file__).parents[1] / "golden"
# What one piece of advice may ask for, and what another must not ask for then.
OPPOSED = {
    "train longer, or stop": (
        r"train (longer|on|past)|raise `train\.max_steps`",
        r"stop(ping)? earlier|more (updates|steps) of [a-z ]* do not help",
    ),
    "larger or smaller micro-batches": (
        r"(larger|raise)[^.]*tokens_per_micro_batch|micro-batches larger",
        r"(smaller|lower)[^.]*tokens_per_micro_batch",
    ),
    "larger or smaller updates": (
        r"(updates larger|larger)[^.]*tokens_per_update",
        r"(updates smaller|smaller|lower)[^.]*tokens_per_update",
    ),
    "more or fewer machines": (
        r"(add|use|take|start) more (machines|workers|processes)",
        r"(fewer|one) (machines?|workers|processes)|on \w+ alone",
    ),
    "save more or less often": (r"save more often", r"save less often"),
    "validate more or less often": (r"validate more often", r"validate less often"),
    "validate on more or fewer sentences": (r"on more sentences", r"on fewer sentences"),
    "clip more or less": (r"(set|lower) `train\.clip_norm`", r"raise `train\.clip_norm`"),
    "warm up longer or shorter": (
        r"warm up longer",
        r"shorten (it|the warm-up)|warm up shorter",
    ),
    "raise or lower the rate": (
        r"raise the (peak )?(learning )?rate",
        r"lower the (peak )?(learning )?rate",
    ),
    "exchange more or less often": (r"exchange more often", r"exchange less often"),
    "more or fewer threads": (r"more threads", r"fewer threads"),
}
FAST = {"forward": 0.1, "backward": 0.1, "optimizer": 0.05}


def overfitting(scores=None, low=0.95, high=0.5):
    """400 pairs: the validation loss is lowest at step 200 and rises by 10 % until step 600."""
    losses = [6.0, 5.0, 4.6, 4.4, 4.5, 4.6, 4.65, 4.7, 4.75, 4.78, 4.8, 4.84]
    scores = scores or [0.5, 1.5, 2.4, 3.0, 2.8, 2.9, 3.0, 2.9, 3.2, 3.5, 3.7, 3.9]
    made = tuple(
        msgspec.structs.replace(v, bleu_low=v.bleu - low, bleu_high=v.bleu + high)
        for v in curve(losses, scores, every=50)
    )
    corpus = {**healthy_run().corpus, "vocabulary": 8000}
    return healthy_run(600, validations=made, corpus=corpus)


def diverged(**changes):
    loss = {n: 2.0 if n < 120 else 7.0 for n in range(1, 201)}
    steps = tuple(step(n, loss=loss[n], gradient_norm=9.0) for n in range(1, 201))
    return healthy_run(ranks={0: steps}, **changes)


def young(validations, **changes):
    return healthy_run(validations=validations, **changes)


def late(rank, n):
    return {**FAST, "exchange": 0.1 if rank else 0.7, "data": 0.6 if rank else 0.0}


def empty(validations):
    return tuple(
        msgspec.structs.replace(v, empty=90, repeating=90, translation_length=100,
                                reference_length=4000)
        for v in validations
    )  # fmt: skip


CLIPPED = settings("train", clip_norm=0.1)
WARMING = settings("schedule", warmup_steps=5000)
PADDED = {0: tuple(msgspec.structs.replace(step(n), positions=4000) for n in range(1, 201))}
FULL = {"memory_used": 15_500_000_000}
COSTLY = tuple(msgspec.structs.replace(v, seconds=30.0) for v in curve([4.0, 3.0, 2.6]))
RUNS = {
    "healthy": healthy_run(),
    "still improving": young(curve([5.0, 4.0, 3.5, 3.0, 2.7, 2.5])),
    "overfitting, BLEU within its interval": overfitting(),
    "overfitting, BLEU beyond its interval": overfitting(low=0.1, high=0.1),
    "overfitting, no BLEU": young(curve([4.0, 3.0, 2.6, 2.5, 2.7, 2.9, 3.1, 3.3])),
    "overfitting, seen after three": young(curve([2.5, 2.7, 2.9])),
    "overfitting during the warm-up": young(curve([2.5, 2.7, 2.9, 3.1]), config=WARMING),
    "overfitting, empty translations": young(empty(curve([4.0, 2.5, 2.7, 2.9, 3.1]))),
    "overfitting, learnt nothing": overfitting(scores=[0.1] * 12),
    "overfitting late": young(curve([4.0, 3.5, 3.2, 3.0, 2.9, 2.8, 2.5, 2.7, 2.9])),
    "flat, empty translations": young(empty(curve([2.5] * 6))),
    "two validations": young(curve([4.0, 3.0])),
    "three costly validations": young(COSTLY),
    "diverged": diverged(),
    "diverged, clipped": diverged(config=CLIPPED),
    "diverged, warming up": diverged(config=WARMING),
    "diverged, two validations": diverged(validations=curve([3.0, 9.0])),
    "always clipped": healthy_run(config=CLIPPED),
    "padded": healthy_run(ranks=PADDED),
    "padded, memory full": sampled(healthy_run(ranks=PADDED), **FULL),
    "devices idle, memory full": sampled(gpus=lambda second: [gpu(50.0)], **FULL),
    "costly checkpoints": healthy_run(saves=tuple(saved(n, 20.0) for n in (50, 100, 150))),
    "tested": healthy_run(tests=(scored(),)),
    "stopped": healthy_run(ends=(ended(reason="signal"),)),
    "slow link": pair(exchange=0.8, rates=(400.0, 400.0)),
    "slow direction": pair(rates=(200.0, 1000.0)),
    "other traffic": pair(foreign=4e8),
    "two networks": pair(links=two_networks),
    "burst": burst(),
    "far apart": far_apart(0.05),
    "straggler": team(late, ["alpha", "beta"]),
    "uneven": uneven((1000, 3000), ({**FAST, "exchange": 0.6}, {**FAST, "backward": 0.7})),
    "one machine": team(lambda rank, n: {**FAST, "exchange": 0.6}, ["alpha", "alpha"]),
    "quick": sampled(healthy_run(ranks=quick_steps())),
    "restarted": healthy_run(starts=(start(), start(size=2, time=1_700_000_050.0))),
    "rich": rich_run(),
    "golden": read_run(GOLDEN / "run-1"),
    "golden, imported": read_run(GOLDEN / "imported-1"),
}


def advice_on(run):
    report = diagnose(run, now())
    named = [(entry.id, entry.advice) for entry in (*report.answers, *report.findings)]
    return [(name, advice) for name, advice in named if advice]


def opposed(advice):
    """Return the names and sentences that ask for opposite things."""
    found = []
    for first, second in itertools.permutations(advice, 2):
        for why, (one, other) in OPPOSED.items():
            if re.search(one, first[1], re.I) and re.search(other, second[1], re.I):
                found.append((why, first, second))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_no_two_pieces_of_advice_oppose_each_other(name):
    assert not opposed(advice_on(RUNS[name]))


def test_opposed_advice_is_noticed():
    before = [
        ("trained", "Train longer: raise `train.max_steps` and start the same command again."),
        ("overfitting", "More data helps; so does stopping earlier (`train.patience`)."),
    ]
    assert opposed(before)
    assert opposed(
        [("a", "Make micro-batches larger."), ("b", "Lower `tokens_per_micro_batch`.")]
    )
    assert not opposed(before[:1])


def test_a_rise_of_bleu_within_its_interval_is_not_progress():
    run = overfitting()
    assert open_case(run, now()).should_stop
    trained, overfit = answer(run, "trained"), answer(run, "overfitting")
    assert (trained.verdict, overfit.verdict) == ("yes", "yes")
    assert overfit.values["since_step"] == 200
    assert "within its 95 % interval" in trained.summary
    assert "Train longer" not in trained.advice
    assert "stop earlier" in overfit.advice


def test_a_rise_of_bleu_beyond_its_interval_is_progress_and_nobody_says_stop():
    run = overfitting(low=0.1, high=0.1)
    trained, overfit = answer(run, "trained"), answer(run, "overfitting")
    assert (trained.verdict, overfit.verdict) == ("no", "yes")
    assert "BLEU still rose" in trained.summary
    assert "stop" not in overfit.advice
    assert "by BLEU" in overfit.advice


def test_both_intervals_count_where_they_are_not_symmetric():
    # 3.9 lies 0.9 above 3.0, and its interval reaches down to 2.9.
    assert answer(overfitting(low=1.0, high=0.1), "trained").verdict == "yes"
    unscored = replace(overfitting(), validations=curve([6.0, 5.0, 4.4, 4.5, 4.6, 4.8]))
    assert answer(unscored, "trained").verdict == "yes"
