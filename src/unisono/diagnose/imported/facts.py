"""The training set of an imported run: as a rule, only its name is known.

Checkpoints of an imported run: not recorded, but their size can be computed.

The learning rate of an imported run: recorded, or computed from its settings.

Is an imported run trained, or overfitting? The rules are those of every run.
"""

import msgspec

from unisono.diagnose.answers.learning_rate import answer_learning_rate as check_learning_rate
from unisono.diagnose.answers.learning_rate import course
from unisono.diagnose.answers.overfitting import answer_overfitting as judge_overfitting
from unisono.diagnose.answers.trained import answer_trained as judge_trained
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.checkpoint_files import BYTES_PER_NUMBER, moments_of
from unisono.diagnose.evidence.rates import rates_of, schedule_of
from unisono.diagnose.imported.words import about, foreign_setting, last_step, records, says
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import listing, rounded
from unisono.schedules import Schedule
from unisono.units import amount_of_bytes


def answer_training_set(case: Case) -> Answer:
    """Name the files, and nothing that nobody counted."""
    names = [
        foreign_setting(case, "data_layer_params", name)
        for name in ("source_file", "target_file")
    ]
    files = [str(name) for name in names if name]
    longest = foreign_setting(case, "data_layer_params", "max_length")
    evidence = [f"file: {name}" for name in files]
    if isinstance(longest, int):
        evidence.append(f"sentences of more than {longest} pieces were left out (max_length)")
    missing = "nothing of its files, size, lines or tokens"
    if files:
        short = listing([name.rpartition("/")[2] for name in files])
        missing = f"that it was {short}, but neither their size nor their lines nor tokens"
    return reply(
        "training_set",
        "unknown",
        f"{records(case).capitalize()} {says(case)} {missing}.",
        values={"files": files or None, "bytes_before": None, "pairs_after": None},
        evidence=evidence,
        advice="`wc -lc` on the files tells lines and bytes." if files else "",
    )


def answer_checkpoint_files(case: Case) -> Answer:
    """Say that nothing was recorded, and what the settings would have done."""
    every, last = int(case.setting("checkpoint", "every_steps", 0)), last_step(case)
    evidence = []
    if every:
        none = f", and the records end at {last:,}: none was due before that" * (every > last)
        evidence.append(f"the settings save every {every:,} updates{none}")
    return reply(
        "checkpoint_files",
        "unknown",
        f"{records(case).capitalize()} {says(case)} nothing about checkpoints.",
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
            f"It is not recorded, and cannot be computed without {listing(missing)}.",
        )
    expected = BYTES_PER_NUMBER * parameters * (1 + moments)
    return reply(
        "checkpoint_size",
        "unknown",
        f"It is not recorded. {parameters:,} parameters of 4 bytes, and {moments} numbers more "
        f"for each that the optimizer keeps, make {amount_of_bytes(expected)}.",
        values={"bytes": None, "expected_bytes": expected, "parameters": parameters},
    )


def answer_learning_rate(case: Case) -> Answer:
    """Put the settings into the formula, or tell what was recorded, or both."""
    schedule, rates = schedule_of(case.run.config), rates_of(case)
    if schedule is not None and rates is not None:
        return check_learning_rate(case)
    if schedule is not None:
        return _computed(case, schedule)
    if rates is None:
        return reply(
            "learning_rate", "unknown", f"Neither a rate nor a schedule is in {records(case)}."
        )
    return reply(
        "learning_rate",
        "answered",
        f"The rate was highest in step {rates.peak_step:,} ({rates.peak:.3g}) and stood at "
        f"{rates.last:.3g} in step {rates.last_step:,}. Why is not known: the settings are not "
        f"in {records(case)}.",
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
        f"By the settings, {schedule(peak_step):.3g} in step {peak_step:,}, "
        f"{'where it was highest, ' if last > peak_step else ''}and {schedule(last):.3g} in "
        f"step {last:,}, the last on record. {course(schedule)} It follows the number of "
        "updates alone, never the loss.",
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
            f"{records(case)} has no rates to check it against",
        ],
    )


# How a foreign trainer computes its training loss is not known.
TRAINING, AS_TRAINED = "with dropout and label smoothing", "as the trainer computes it"


def answer_trained(case: Case) -> Answer:
    """Judge by the validations, and say what the trainer's own BLEU is worth."""
    answer = judge_trained(case)
    planned = int(case.setting("train", "max_steps", 0))
    advice = {
        "no": "Train longer.",
        "diverged": "Lower the peak learning rate, warm up longer, or clip gradients.",
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
            f"Keep the checkpoint of step {answer.values['best_step']:,} or the next one "
            "before it. More data, more dropout or a smaller model help; so does stopping "
            "earlier."
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
        f"what the log calls BLEU: {course}; it scores next words in the midst of the "
        "reference, not translations: a model that repeats its input has 95, so it counts for "
        "nothing here"
    ]
