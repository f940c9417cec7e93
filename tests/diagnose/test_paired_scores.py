"""The paired bootstrap, against one written out, and against cases whose truth is known."""

import numpy as np
import pytest

from diagnose.made_runs import curve, healthy_run, validated, with_sentences
from unisono.diagnose.evidence import scores as paired
from unisono.diagnose.evidence.scores import compare, compare_steps
from unisono.records.sentence_losses import SentenceLosses


def made(sentences=400, worse_by=0.0, scatter=0.5, seed=1):
    """Two evaluations of the same sentences, and their tokens."""
    random = np.random.default_rng(seed)
    tokens = random.integers(5, 40, sentences).astype(np.int32)
    first = (tokens * random.gamma(4.0, 0.5, sentences)).astype(np.float32)
    second = first + tokens * (worse_by + scatter * random.normal(size=sentences))
    return second.astype(np.float32), first, tokens


def written_out(second, first, tokens, resamples=2000):
    random = np.random.default_rng(99)
    deltas = []
    for _ in range(resamples):
        drawn = random.choice(len(tokens), len(tokens))
        deltas.append((second[drawn].sum() - first[drawn].sum()) / tokens[drawn].sum())
    return np.array(deltas)


def test_interval_and_chance_are_those_of_a_bootstrap_written_out():
    second, first, tokens = made(worse_by=0.05)
    (found,) = compare([second], first, tokens)
    deltas = written_out(second, first, tokens)
    assert found.delta == pytest.approx((second.sum() - first.sum()) / tokens.sum(), rel=1e-3)
    assert found.low == pytest.approx(np.quantile(deltas, 0.025), abs=0.2 * deltas.std())
    assert found.high == pytest.approx(np.quantile(deltas, 0.975), abs=0.2 * deltas.std())
    assert found.p == pytest.approx(2 * (deltas <= 0).mean(), abs=0.03)


def test_long_sentences_count_by_their_tokens():
    tokens = np.array([1] * 30 + [99] * 30, np.int32)
    base = np.ones(60, np.float32)
    worse = base + np.array([1.0] * 30 + [0.0] * 30, np.float32)
    (found,) = compare([worse], base, tokens)
    assert found.delta == pytest.approx(30 / 3000)


def test_what_every_token_lost_alike_is_certain():
    _, first, tokens = made()
    (found,) = compare([first + np.float32(0.5) * tokens], first, tokens)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5), abs=1e-5)


def test_nothing_differs_from_itself():
    _, first, tokens = made()
    (found,) = compare([first], first, tokens)
    assert (found.delta, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_what_is_chance_is_called_so_as_often_as_it_should():
    alarms = sum(compare([s], f, t)[0].p < 0.05 for s, f, t in map(_null, range(200)))
    assert 2 <= alarms <= 22  # ten are expected


def _null(seed):
    return made(sentences=120, seed=seed)


def test_pairs_show_what_the_means_alone_would_not():
    second, first, tokens = made(sentences=1000, worse_by=0.02, scatter=0.1)
    per_token = first / tokens
    alone = per_token.std() / np.sqrt(len(tokens))
    (found,) = compare([second], first, tokens)
    assert found.delta < 2 * alone
    assert found.p < 0.01


def test_better_and_worse_are_told_apart():
    second, first, tokens = made(worse_by=0.2)
    worse, better = compare([second], first, tokens) + compare([first], second, tokens)
    assert worse.delta == pytest.approx(-better.delta)
    assert worse.low > 0 > better.high
    assert max(worse.p, better.p) < 0.01


def test_a_large_set_is_drawn_in_parts_and_gives_the_same(monkeypatch):
    second, first, tokens = made(worse_by=0.05)
    whole = compare([second], first, tokens)
    monkeypatch.setattr(paired, "DRAWN_AT_ONCE", 7 * 400)
    (parts,) = compare([second], first, tokens)
    assert parts.low == pytest.approx(whole[0].low)
    assert parts.p == whole[0].p


def test_only_what_was_kept_is_compared():
    known = with_sentences(curve([3.0, 2.5, 2.6]))
    assert list(compare_steps(known, [20, 60, 80], 40)) == [20, 60]
    assert compare_steps(known, [20], 80) == {}
    assert compare_steps(SentenceLosses(), [20], 40) == {}
    assert compare_steps(with_sentences(curve([3.0, 2.5]), sentences=5), [20], 40) == {}


def test_the_report_says_where_bleu_and_chrf_disagree():
    rising = [validated(n, 3.0, bleu=20.0 + n, chrf=40.0 + n) for n in (1, 2, 3)]
    run = healthy_run(validations=tuple(rising))
    assert not [line for line in paired.score_evidence(run) if "disagree" in line]
    assert "; chrF 43.00" in paired.score_evidence(run)[0]
    other = validated(4, 3.0, bleu=19.0, chrf=50.0)
    [line] = [
        line
        for line in paired.score_evidence(healthy_run(validations=(*rising, other)))
        if "disagree" in line
    ]
    assert "BLEU is highest at step 3 (23.00" in line
    assert "chrF at step 4 (50.00" in line
