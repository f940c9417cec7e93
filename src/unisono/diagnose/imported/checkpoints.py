"""Checkpoints of an imported run: not recorded, but their size can be computed."""

from unisono.diagnose.case import Case
from unisono.diagnose.checkpoints import BYTES_PER_NUMBER, moments_of
from unisono.diagnose.imported.words import about, last_step, records, says
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.words import listing
from unisono.units import amount_of_bytes


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
