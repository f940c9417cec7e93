"""Duration and step time of an imported run."""

from statistics import fmean, median, quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.imported.words import about, foreign_setting, last_step, records, says
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import count, rounded
from unisono.units import duration


def elapsed(case: Case) -> float:
    """Return the seconds that the records cover."""
    return sum(session.seconds for session in case.sessions)


def answer_duration(case: Case) -> Answer:
    """Say how long the records go, and how long the rest would have taken."""
    run, updates = about(case), last_step(case)
    planned = int(case.setting("train", "max_steps", 0))
    rows = case.ledger.usual
    pace = median(row.seconds for row in rows) if rows else None
    left = max(0, planned - updates) if planned and not run.ended else None
    seconds_left = left * pace if left is not None and pace is not None else None
    covered = f"{_upper(records(case))} cover{'' if says(case) == 'say' else 's'}"
    if not elapsed(case):
        summary = f"{covered} {count(updates, 'update')}, but not the time they took."
    else:
        summary = f"{covered} {duration(elapsed(case))} and {count(updates, 'update')}"
        summary += f"{_ending(case)}{_outlook(planned, left, seconds_left)}"
    return reply(
        "duration",
        "finished" if run.ended else "unknown",
        summary,
        values={
            "seconds": rounded(elapsed(case), 3) if elapsed(case) else None,
            "seconds_left": rounded(seconds_left, 1),
            "updates": updates,
            "updates_planned": planned or None,
            "starts": None,
            "restarts": None,
        },
        evidence=[_how_known(case)],
    )


def answer_step_time(case: Case) -> Answer:
    """Give the readings as they are; no record says what a step was made of."""
    rows = case.ledger.usual
    if not rows:
        return reply("step_time", "unknown", f"{_upper(records(case))} {says(case)} no time.")
    seconds = sorted(row.seconds for row in rows)
    mean, middle = fmean(seconds), median(seconds)
    slow = quantiles(seconds, n=10)[-1] if len(seconds) >= 10 else None
    sentences = _sentences(case)
    speed = sentences / middle if sentences and middle > 0 else None
    many = f", {speed:,.0f} sentences a second" if speed else ""
    return reply(
        "step_time",
        "answered",
        f"{_fine(mean)} on average, {_fine(middle)} in the middle"
        f"{f', one in ten over {_fine(slow)}' if slow else ''}{many}. What a step was made "
        "of is not recorded.",
        values={
            "mean_seconds": rounded(mean, 6),
            "median_seconds": rounded(middle, 6),
            "p90_seconds": rounded(slow, 6),
            "readings": len(rows),
            "updates_per_reading": about(case).every_steps or None,
            "sentences_per_second": rounded(speed, 1),
            "target_tokens_per_second": _tokens_per_second(case),
            "parts_seconds": None,
        },
        evidence=_evidence(case, len(rows), sentences),
    )


def _ending(case: Case) -> str:
    if about(case).ended:
        return "; training came to its end."
    return (
        ", and say nothing of an end."
        if says(case) == "say"
        else " and says nothing of an end."
    )


def _outlook(planned: int, left: int | None, seconds: float | None) -> str:
    if not left or seconds is None:
        return ""
    return (
        f" {planned:,} updates were planned; the {left:,} that are missing would take "
        f"{duration(seconds)} more at that pace."
    )


def _how_known(case: Case) -> str:
    if about(case).trainer == "OpenSeq2Seq":
        return (
            "the time is the sum of the step times in the log, the start before them included"
        )
    return "the time is that between the first record and the last"


def _sentences(case: Case) -> int:
    size, processes = foreign_setting(case, "batch_size_per_gpu"), about(case).processes
    gpus = foreign_setting(case, "num_gpus")
    passes = foreign_setting(case, "iter_size") or 1
    if not all(isinstance(n, int) and n > 0 for n in (size, processes, gpus, passes)):
        return 0
    return int(size * processes * gpus * passes)


def _tokens_per_second(case: Case) -> float | None:
    steps = [s for s in case.run.steps if s.target_tokens > 0 and s.seconds > 0]
    seconds = sum(step.seconds for step in steps)
    return rounded(sum(s.target_tokens for s in steps) / seconds, 1) if seconds > 0 else None


def _evidence(case: Case, readings: int, sentences: int) -> list[str]:
    every = about(case).every_steps
    means = f", each the mean of {every:,} updates" if every > 1 else ""
    lines = [
        f"{count(readings, 'reading')}{means}, with whatever came between them: validations, "
        "checkpoints"
    ]
    if sentences:
        size = foreign_setting(case, "batch_size_per_gpu")
        lines.append(
            f"an update has {sentences:,} sentences by the settings: {size:,} on each of "
            f"{sentences // size:,} devices"
        )
    return lines


def _fine(seconds: float) -> str:
    """Write a step time with all its digits: readings of a log hardly differ."""
    return f"{seconds:.3f} s" if 0.1 <= seconds < 10 else duration(seconds)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
