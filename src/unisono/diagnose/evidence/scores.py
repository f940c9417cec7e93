"""Two evaluations compared sentence by sentence: is one better, or was it chance?

Some sentences are hard and some easy for every state of the model, and most of the uncertainty
of a mean comes from that. It cancels when each sentence is compared with itself. A paired
bootstrap draws the set anew, a thousand times, and computes the difference on each resample:
what all of them agree on does not depend on which sentences happened to be in the set.

The module also writes BLEU for people, with its interval and its signature if they are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from unisono.diagnose.wording import rounded
from unisono.records.events import Tested, Validated
from unisono.records.sentence_losses import Losses, SentenceLosses, Tokens
from unisono.records.view import RunView

RESAMPLES = 1000
PAIRED_SEED = 1
DRAWN_AT_ONCE = 4_000_000  # numbers of sentences, which int32 can count
FEWEST_SENTENCES = 20
UNPAIRED = (
    "the run did not keep the loss of each sentence, so the scatter of the curve decides what "
    "counts as chance"
)


@dataclass(frozen=True)
class PairedDifference:
    """What a later evaluation lost against another, in nats per token: above 0 is worse.

    `low` and `high` are the 95 % interval. `p` is how likely so large a difference, up or down,
    is by chance; with a thousand resamples it is never less than 0.002.
    """

    delta: float
    low: float
    high: float
    p: float


def compare(
    others: Sequence[Losses], reference: Losses, tokens: Tokens
) -> tuple[PairedDifference, ...]:
    """Compare each of some evaluations with the `reference`, on the same resamples."""
    if not others:
        return ()
    table = np.stack([other.astype(np.float64) - reference for other in others], axis=1)
    deltas = table.sum(axis=0) / tokens.sum(dtype=np.int64)
    drawn = np.sort(_resampled(table, tokens.astype(np.float64)), axis=0)
    pairs = zip(deltas, drawn.T, strict=True)
    return tuple(_difference(float(delta), column) for delta, column in pairs)


def compare_steps(
    known: SentenceLosses, steps: Sequence[int], reference: int
) -> Mapping[int, PairedDifference]:
    """Compare the evaluations after `steps` with that after `reference`, as far as possible.

    Nothing is compared if the reference was not kept, or if the set is too small to resample.
    """
    base = known.at_step.get(reference)
    if base is None or len(base) < FEWEST_SENTENCES:
        return {}
    there = [step for step in steps if step in known.at_step]
    found = compare([known.at_step[step] for step in there], base, known.tokens)
    return dict(zip(there, found, strict=True))


def _resampled(
    table: NDArray[np.float64], tokens: NDArray[np.float64]
) -> NDArray[np.float64]:  # (resamples, evaluations)
    """Return the difference per token on each resample of the rows of `table`."""
    sentences, random = len(table), np.random.default_rng(PAIRED_SEED)
    columns = np.concatenate([table, tokens[:, None]], axis=1)
    at_once, parts, left = max(1, DRAWN_AT_ONCE // sentences), [], RESAMPLES
    while left:
        rows = min(at_once, left)
        drawn = random.integers(sentences, size=(rows, sentences), dtype=np.int32)
        drawn += sentences * np.arange(rows, dtype=np.int32)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * sentences)
        sums = times.reshape(rows, sentences).astype(np.float64) @ columns
        parts.append(sums[:, :-1] / sums[:, -1:])
        left -= rows
    return np.concatenate(parts)


def _difference(delta: float, drawn: NDArray[np.float64]) -> PairedDifference:
    """Read the interval and p off the sorted differences of all resamples."""
    out = len(drawn) // 40
    wrong_side = int((drawn <= 0).sum()) if delta > 0 else int((drawn >= 0).sum())
    p = min(1.0, 2 * (wrong_side + 1) / (len(drawn) + 1))
    return PairedDifference(delta, float(drawn[out]), float(drawn[-out - 1]), p)


def last_scored(run: RunView) -> Validated | None:
    """Return the last validation with BLEU."""
    return next((event for event in reversed(run.validations) if event.bleu >= 0), None)


def best_scored(run: RunView) -> Validated | None:
    """Return the validation with the highest BLEU."""
    scored = [event for event in run.validations if event.bleu >= 0]
    return max(scored, key=lambda event: event.bleu, default=None)


def bleu_words(event: Validated | Tested) -> str:
    """Write BLEU with half of its 95 % interval: "27.3 ± 0.8"."""
    half = half_interval(event)
    return f"{event.bleu:.1f}" if half is None else f"{event.bleu:.1f} ± {half:.1f}"


def half_interval(event: Validated | Tested) -> float | None:
    """Return half of the 95 % interval of BLEU, or None if it was not recorded."""
    known = 0 <= event.bleu_low <= event.bleu_high
    return (event.bleu_high - event.bleu_low) / 2 if known else None


def bleu_note(run: RunView) -> str:
    """Say how to read BLEU of this run: its signature, and what "±" means.

    Pages show it once, in small print, because a signature is longer than most lines. "" if
    nothing was scored.
    """
    events: list[Validated | Tested] = [*run.validations, *run.tests]
    scored = [event for event in events if event.bleu >= 0]
    if not scored:
        return ""
    signatures = dict.fromkeys(e.bleu_signature for e in scored if e.bleu_signature)
    known = any(half_interval(event) is not None for event in scored)
    interval = "± is half of its 95 % interval" if known else "no interval was recorded"
    return f"BLEU: {interval}; signature {' and '.join(signatures) or 'not recorded'}"


def score_evidence(run: RunView) -> list[str]:
    """Return a line each for the last BLEU on the validation and on the test set."""
    valid, tests = last_scored(run), run.tests
    lines = [_line("validation", valid)] if valid else []
    return [*lines, *([_line("test", tests[-1])] if tests else []), *_disagreement(run)]


def _disagreement(run: RunView) -> list[str]:
    """Return a line if BLEU and chrF do not prefer the same validation."""
    scored = [event for event in run.validations if event.bleu >= 0 and event.chrf >= 0]
    if not scored:
        return []
    bleu, chrf = (max(scored, key=attrgetter(name)) for name in ("bleu", "chrf"))
    if bleu.step == chrf.step:
        return []
    return [
        f"the metrics disagree: BLEU is highest at step {bleu.step:,} ({bleu.bleu:.2f}, there "
        f"chrF {bleu.chrf:.2f}), chrF at step {chrf.step:,} ({chrf.chrf:.2f}, there BLEU "
        f"{chrf.bleu:.2f})"
    ]


def score_values(run: RunView) -> dict[str, object]:
    """Return the last scores as values of an answer."""
    valid, tests = last_scored(run), run.tests
    return {**_numbers("bleu", valid), **_numbers("test_bleu", tests[-1] if tests else None)}


def _line(name: str, event: Validated | Tested) -> str:
    half = half_interval(event)
    interval = ""
    if half is not None:
        interval = f", 95 % interval {event.bleu_low:.2f} to {event.bleu_high:.2f}"
    chrf = f"; chrF {event.chrf:.2f}" if event.chrf >= 0 else ""
    return (
        f"{name} BLEU {event.bleu:.2f} at step {event.step:,}{interval} "
        f"({event.bleu_signature or 'signature not recorded'}){chrf}"
    )


def _numbers(name: str, event: Validated | Tested | None) -> dict[str, object]:
    known = event is not None and half_interval(event) is not None
    return {
        name: rounded(event.bleu, 2) if event else None,
        f"{name}_low": rounded(event.bleu_low, 2) if event and known else None,
        f"{name}_high": rounded(event.bleu_high, 2) if event and known else None,
        f"{name}_signature": (event.bleu_signature or None) if event else None,
    }
