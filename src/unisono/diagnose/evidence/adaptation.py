"""What a run that started from other weights gained, and what it forgot."""

from unisono.diagnose.case import Case
from unisono.diagnose.report import Adaptation, ScoreChange
from unisono.diagnose.wording import percent
from unisono.records.events import Adapted

SHOWN_HASH = 12


def adaptation_of(case: Case) -> Adaptation | None:
    """Return where the first weights came from and what became of them; None without any."""
    starts = [start for start in case.run.starts if start.start]
    if not starts:
        return None
    by_test = {event.test: event for event in case.run.adapted}
    gain, forgotten = (_change(by_test.get(name)) for name in ("new", "old"))
    share = case.trained / case.parameters if case.parameters else 1.0
    return Adaptation(
        start=starts[-1].start,
        sha256=starts[-1].start_sha256,
        trained_share=round(share, 4),
        verdict=_verdict(gain, forgotten),
        gain=gain,
        forgotten=forgotten,
    )


def adaptation_words(found: Adaptation) -> list[str]:
    """Say in a few sentences what was gained and forgotten."""
    frozen = 1 - found.trained_share
    part = f"; {percent(frozen)} of its parameters are frozen" if frozen > 0 else ""
    sentences = [f"Started from {found.start} (sha256 {found.sha256[:SHOWN_HASH]}){part}."]
    sentences.append(_sentence("new", found.gain, "no test set, or it has not ended"))
    missing = "`[start] old_test` names none, or the run has not ended"
    sentences.append(_sentence("old", found.forgotten, missing))
    return [*sentences, *filter(None, [_VERDICTS[found.verdict]])]


_VERDICTS = {
    "gained": "What it gained outweighs what it forgot.",
    "outweighed": "Forgetting outweighs the gain: mix old text into the training set, freeze "
    "more, lower the rate, or stop earlier.",
    "no_gain": "There is no gain on the new test set that chance could not make.",
    "unknown": "",
}


def _verdict(gain: ScoreChange | None, forgotten: ScoreChange | None) -> str:
    if gain is None:
        return "unknown"
    lost = 0.0
    if forgotten is not None and not forgotten.is_chance:
        lost = -forgotten.difference
    if lost > max(0.0, gain.difference):
        return "outweighed"
    if gain.is_chance or gain.difference <= 0:
        return "no_gain"
    return "gained" if forgotten is not None else "unknown"


def _change(event: Adapted | None) -> ScoreChange | None:
    if event is None:
        return None
    return ScoreChange(
        sentences=event.sentences,
        bleu_start=round(event.bleu_start, 2),
        bleu_run=round(event.bleu_run, 2),
        difference=round(event.bleu_run - event.bleu_start, 2),
        low=round(event.low, 2),
        high=round(event.high, 2),
        is_chance=event.is_chance,
        chrf_start=round(event.chrf_start, 2),
        chrf_run=round(event.chrf_run, 2),
    )


def _sentence(name: str, change: ScoreChange | None, missing: str) -> str:
    if change is None:
        return f"On the {name} test set nothing was compared: {missing}."
    chance = "; it may be chance" if change.is_chance else ""
    return (
        f"On the {name} test set ({change.sentences:,} sentences) BLEU went from "
        f"{change.bleu_start:.2f} to {change.bleu_run:.2f}: {change.difference:+.2f} (95 % "
        f"interval {change.low:+.2f} to {change.high:+.2f}){chance}; chrF from "
        f"{change.chrf_start:.2f} to {change.chrf_run:.2f}.{_disagreement(change)}"
    )


def _disagreement(change: ScoreChange) -> str:
    """Say so if one metric rose and the other fell."""
    if change.difference * (change.chrf_run - change.chrf_start) >= 0:
        return ""
    rose, fell = ("BLEU", "chrF") if change.difference > 0 else ("chrF", "BLEU")
    return f" The metrics disagree: {rose} rose and {fell} fell."
