"""Answers about an imported run, except its network: time, training, data, checkpoints.

The rules are those of every run; what the records do not say stays unknown.
"""

from statistics import fmean, median, quantiles

import msgspec

from unisono.diagnose.answers.learning_rate import answer_learning_rate as check_learning_rate
from unisono.diagnose.answers.learning_rate import course
from unisono.diagnose.answers.overfitting import answer_overfitting as judge_overfitting
from unisono.diagnose.answers.overfitting import remedies
from unisono.diagnose.answers.trained import answer_trained as judge_trained
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.curve import rates_of, schedule_of
from unisono.diagnose.evidence.run_files import BYTES_PER_NUMBER, moments_of
from unisono.diagnose.evidence.step_arithmetic import imported_setting
from unisono.diagnose.imported.source import (
    about,
    elapsed,
    first_upper,
    last_step,
    records,
    says,
)
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, listing, rounded
from unisono.schedules import Schedule
from unisono.units import amount_of_bytes, duration


def answer_training_set(case: Case) -> Answer:
    """Name the files; give no number that nobody counted."""
    names = [
        imported_setting(case.run, "data_layer_params", name)
        for name in ("source_file", "target_file")
    ]
    files = [str(name) for name in names if name]
    longest = imported_setting(case.run, "data_layer_params", "max_length")
    evidence = [f"file: {name}" for name in files]
    if isinstance(longest, int):
        evidence.append(f"the trainer left out sentences of over {longest} pieces (max_length)")
    missing = "nothing about the files of the training set, their size, lines or tokens"
    if files:
        short = listing([name.rpartition("/")[2] for name in files])
        missing = f"that it was {short}, but not how many bytes, lines or tokens they have"
    return reply(
        "training_set",
        "unknown",
        f"{first_upper(records(case))} {says(case)} {missing}.",
        values={"files": files or None, "bytes_before": None, "pairs_after": None},
        evidence=evidence,
        advice="`wc -lc` counts the lines and bytes of the files." if files else "",
    )


def answer_checkpoint_files(case: Case) -> Answer:
    """Say that nothing was recorded, and what the settings would have done."""
    every, last = int(case.setting("checkpoint", "every_steps", 0)), last_step(case)
    evidence = []
    if every:
        none = f", and the records end at {last:,}, before the first was due" * (every > last)
        evidence.append(f"the settings save a checkpoint every {every:,} updates{none}")
    return reply(
        "checkpoint_files",
        "unknown",
        f"{first_upper(records(case))} {says(case)} nothing about checkpoints.",
        evidence=evidence,
    )


def answer_checkpoint_size(case: Case) -> Answer:
    """Do the arithmetic, if the weights were counted and the optimizer is known."""
    parameters, moments = about(case).parameters, moments_of(case.run.config)
    if not parameters or moments is None:
        missing = [] if parameters else ["the number of parameters"]
        missing += ["the optimizer"] if moments is None else []
        return reply(
            "checkpoint_size",
            "unknown",
            f"The size is not recorded, and cannot be computed without {listing(missing)}.",
        )
    expected = BYTES_PER_NUMBER * parameters * (1 + moments)
    return reply(
        "checkpoint_size",
        "unknown",
        f"The size is not recorded. {parameters:,} parameters of 4 bytes, and the {moments} "
        f"numbers that the optimizer keeps for each, make {amount_of_bytes(expected)}.",
        values={"bytes": None, "expected_bytes": expected, "parameters": parameters},
    )


def answer_learning_rate(case: Case) -> Answer:
    """Put the settings into the formula, or say what was recorded, or both."""
    schedule, rates = schedule_of(case.run.config), rates_of(case.run)
    if schedule is not None and rates is not None:
        return check_learning_rate(case)
    if schedule is not None:
        return _computed(case, schedule)
    if rates is None:
        return reply(
            "learning_rate",
            "unknown",
            f"{first_upper(records(case))} {says(case)} nothing about "
            "the learning rate or its schedule.",
        )
    return reply(
        "learning_rate",
        "answered",
        f"The rate peaked at step {rates.peak_step:,} ({rates.peak:.3g}) and was "
        f"{rates.last:.3g} at step {rates.last_step:,}. Why is unknown: {records(case)} "
        f"{says(case)} nothing about the schedule.",
        values={
            "formula": None,
            "peak": rounded(rates.peak, 10),
            "peak_step": rates.peak_step,
            "final": rounded(rates.last, 10),
            "final_step": rates.last_step,
        },
    )


def _computed(case: Case, schedule: Schedule) -> Answer:
    last = max(1, last_step(case))
    peak_step = min(last, max(1, schedule.warmup_steps))
    return reply(
        "learning_rate",
        "answered",
        f"By the settings, {schedule(peak_step):.3g} at step {peak_step:,}"
        f"{', its peak,' if last > peak_step else ''} and {schedule(last):.3g} at step "
        f"{last:,}, the last on record. {course(schedule)} The rate depends on the number of "
        "updates alone, never on the loss.",
        values={
            "formula": schedule.formula(),
            "warmup_steps": schedule.warmup_steps,
            "peak": rounded(schedule(peak_step), 10),
            "peak_step": peak_step,
            "final": rounded(schedule(last), 10),
            "final_step": last,
            "computed": True,
        },
        evidence=[
            f"configured: {schedule.formula()}",
            f"{records(case)} {says(case)} no rates to check it against",
        ],
    )


# Nobody knows how another trainer computes its training loss.
TRAINING, AS_TRAINED = "with dropout and label smoothing", "as the trainer computes it"


def answer_trained(case: Case) -> Answer:
    """Judge by the validations, and say what the trainer's own BLEU is worth."""
    answer = judge_trained(case)
    planned = int(case.setting("train", "max_steps", 0))
    advice = {
        "no": "Train longer.",
        "diverged": "Lower the peak learning rate, warm up longer, or clip gradients.",
        "yes": answer.advice,
    }.get(answer.verdict, "")
    if answer.values.get("learnt") is False:
        advice = answer.advice
    elif answer.verdict == "no" and planned > last_step(case):
        advice = (
            f"Train longer: {planned:,} updates were planned, and the records end at "
            f"{last_step(case):,}."
        )
    evidence = (*answer.evidence, *_forced_bleu(case))
    return msgspec.structs.replace(answer, advice=advice, evidence=evidence)


def answer_overfitting(case: Case) -> Answer:
    """Judge by the validations."""
    answer = judge_overfitting(case)
    advice = ""
    if answer.verdict == "yes":
        advice = (
            f"Keep the checkpoint of step {answer.values['best_step']:,}, or the last before "
            f"it. {remedies(case)}"
        )
    evidence = tuple(line.replace(TRAINING, AS_TRAINED) for line in answer.evidence)
    return msgspec.structs.replace(answer, advice=advice, evidence=evidence)


def _forced_bleu(case: Case) -> list[str]:
    scores = [(v.step, v.forced_bleu) for v in case.run.validations if v.forced_bleu >= 0]
    if not scores:
        return []
    shown = scores if len(scores) <= 6 else [*scores[:2], *scores[-4:]]
    course = ", ".join(f"{score:.1f} (step {step:,})" for step, score in shown)
    return [
        f"what the log calls BLEU: {course}; it scores each next word that the model predicts "
        "from the reference so far, not translations. A model that only repeats its input "
        "reaches 95, so this BLEU counts for nothing here"
    ]


def answer_duration(case: Case) -> Answer:
    """Say what time the records cover, and how long the rest would have taken."""
    run, updates = about(case), last_step(case)
    planned = int(case.setting("train", "max_steps", 0))
    rows = case.ledger.usual
    pace = median(row.seconds for row in rows) if rows else None
    left = max(0, planned - updates) if planned and not run.ended else None
    seconds_left = left * pace if left is not None and pace is not None else None
    covered = f"{first_upper(records(case))} cover{'' if says(case) == 'say' else 's'}"
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
        return reply(
            "step_time", "unknown", f"{first_upper(records(case))} {says(case)} no time."
        )
    seconds = sorted(row.seconds for row in rows)
    mean, middle = fmean(seconds), median(seconds)
    slow = quantiles(seconds, n=10)[-1] if len(seconds) >= 10 else None
    sentences = _sentences(case)
    speed = sentences / middle if sentences and middle > 0 else None
    many = f", {speed:,.0f} sentences a second" if speed else ""
    return reply(
        "step_time",
        "answered",
        f"{_fine(mean)} on average, median {_fine(middle)}"
        f"{f', one in ten over {_fine(slow)}' if slow else ''}{many}. The parts of a step are "
        "not recorded.",
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
        return "; training ran to its end."
    return f", and {says(case)} nothing about the end."


def _outlook(planned: int, left: int | None, seconds: float | None) -> str:
    if not left or seconds is None:
        return ""
    return (
        f" {planned:,} updates were planned; the remaining {left:,} would take another "
        f"{duration(seconds)} at that pace."
    )


def _how_known(case: Case) -> str:
    if about(case).trainer == "OpenSeq2Seq":
        return "the time is the sum of the step times in the log, plus the start-up before them"
    return "the time is that from the first record to the last"


def _sentences(case: Case) -> int:
    size, processes = imported_setting(case.run, "batch_size_per_gpu"), about(case).processes
    gpus = imported_setting(case.run, "num_gpus")
    passes = imported_setting(case.run, "iter_size") or 1
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
        f"{count(readings, 'reading')}{means}, including the validations and checkpoints "
        "between them"
    ]
    if sentences:
        size = imported_setting(case.run, "batch_size_per_gpu")
        lines.append(
            f"by the settings an update has {sentences:,} sentences: {size:,} on each of "
            f"{sentences // size:,} devices"
        )
    return lines


def _fine(seconds: float) -> str:
    """Write a step time with all its digits, for the readings of a log hardly differ."""
    return f"{seconds:.3f} s" if 0.1 <= seconds < 10 else duration(seconds)
