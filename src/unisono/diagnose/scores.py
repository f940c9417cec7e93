"""BLEU as it is told: never without its interval and its signature, where they are known."""

from unisono.diagnose.case import Case
from unisono.diagnose.words import rounded
from unisono.records.events import Tested, Validated
from unisono.records.view import RunView


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
    """Say how BLEU of this run is to be read: its signature, and what stands behind "±".

    In small print once where scores are shown, for a signature is longer than most lines. ""
    if nothing was scored.
    """
    events: list[Validated | Tested] = [*run.validations, *run.tests]
    scored = [event for event in events if event.bleu >= 0]
    if not scored:
        return ""
    signatures = dict.fromkeys(e.bleu_signature for e in scored if e.bleu_signature)
    known = any(half_interval(event) is not None for event in scored)
    interval = "± is half of its 95 % interval" if known else "no interval was recorded"
    return f"BLEU: {interval}; signature {' and '.join(signatures) or 'not recorded'}"


def score_evidence(case: Case) -> list[str]:
    """Return a line each for the last BLEU on the validation and on the test set."""
    valid, tests = last_scored(case.run), case.run.tests
    lines = [_line("validation", valid)] if valid else []
    return [*lines, *([_line("test", tests[-1])] if tests else [])]


def score_values(case: Case) -> dict[str, object]:
    """Return the numbers of the same."""
    valid, tests = last_scored(case.run), case.run.tests
    return {**_numbers("bleu", valid), **_numbers("test_bleu", tests[-1] if tests else None)}


def _line(name: str, event: Validated | Tested) -> str:
    half = half_interval(event)
    interval = ""
    if half is not None:
        interval = f", 95 % interval {event.bleu_low:.2f} to {event.bleu_high:.2f}"
    return (
        f"{name} BLEU {event.bleu:.2f} at step {event.step:,}{interval} "
        f"({event.bleu_signature or 'signature not recorded'})"
    )


def _numbers(name: str, event: Validated | Tested | None) -> dict[str, object]:
    known = event is not None and half_interval(event) is not None
    return {
        name: rounded(event.bleu, 2) if event else None,
        f"{name}_low": rounded(event.bleu_low, 2) if event and known else None,
        f"{name}_high": rounded(event.bleu_high, 2) if event and known else None,
        f"{name}_signature": (event.bleu_signature or None) if event else None,
    }
