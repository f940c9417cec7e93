"""Is an imported run trained, or overfitting? The rules are those of every run."""

import msgspec

from unisono.diagnose.answers.overfitting import answer_overfitting as judge_overfitting
from unisono.diagnose.answers.trained import answer_trained as judge_trained
from unisono.diagnose.case import Case
from unisono.diagnose.imported.words import last_step
from unisono.diagnose.report import Answer

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
