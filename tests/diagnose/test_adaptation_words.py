"""What the report says about a gain and about forgetting."""

import pytest

from unisono.diagnose.evidence.adaptation import _verdict, adaptation_words
from unisono.diagnose.report import Adaptation, ScoreChange


def change(start, run, *, is_chance=False, chrf=None):
    return ScoreChange(
        sentences=1000,
        bleu_start=start,
        bleu_run=run,
        difference=run - start,
        low=run - start - 1,
        high=run - start + 1,
        is_chance=is_chance,
        chrf_start=start + 20,
        chrf_run=run + 20 if chrf is None else chrf,
    )


@pytest.mark.parametrize(
    ("gain", "forgotten", "verdict"),
    [
        (change(10, 30), change(25, 20), "gained"),
        (change(10, 12), change(25, 5), "outweighed"),
        (change(10, 12), change(25, 5, is_chance=True), "gained"),
        (change(10, 10.5, is_chance=True), change(25, 25), "no_gain"),
        (change(10, 8), None, "no_gain"),
        (change(10, 30), None, "unknown"),
        (None, change(25, 5), "unknown"),
    ],
)
def test_forgetting_counts_only_if_it_is_more_than_chance_and_than_the_gain(
    gain, forgotten, verdict
):
    assert _verdict(gain, forgotten) == verdict


def test_the_words_have_both_differences_with_their_intervals():
    found = Adaptation(
        start="runs/base",
        sha256="0123456789abcdef",
        trained_share=0.75,
        verdict="outweighed",
        gain=change(10, 12),
        forgotten=change(25, 5),
    )
    words = " ".join(adaptation_words(found))
    assert "runs/base (sha256 0123456789ab); 25 % of its parameters are frozen" in words
    assert "+2.00 (95 % interval +1.00 to +3.00)" in words
    assert "-20.00 (95 % interval -21.00 to -19.00)" in words
    assert "Forgetting outweighs the gain" in words


def test_the_words_say_if_the_metrics_disagree():
    def words(gain, forgotten):
        return adaptation_words(
            Adaptation(
                start="runs/base",
                sha256="0123456789abcdef",
                trained_share=1.0,
                verdict="gained",
                gain=gain,
                forgotten=forgotten,
            )
        )

    _, new, old, _ = words(change(10, 12, chrf=29), change(25, 24, chrf=46))
    assert new.endswith("The metrics disagree: BLEU rose and chrF fell.")
    assert old.endswith("The metrics disagree: chrF rose and BLEU fell.")
    agreeing = words(change(10, 12), change(25, 24))
    assert not any("disagree" in sentence for sentence in agreeing)
