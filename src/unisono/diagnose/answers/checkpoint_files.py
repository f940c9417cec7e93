"""Which files is a checkpoint made of, and what is in each?"""

from unisono.diagnose.case import Case
from unisono.diagnose.checkpoints import (
    EXCHANGE,
    MANIFEST,
    OPTIMIZER,
    PROGRESS,
    WEIGHTS,
    averages_of,
    moments_of,
    newest_files,
)
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.words import count, listing
from unisono.units import amount_of_bytes

ORDER = [WEIGHTS, OPTIMIZER, EXCHANGE, PROGRESS, MANIFEST]
CONTENTS = {
    WEIGHTS: "the weights of the model, by name: all that translating needs",
    EXCHANGE: "what each process has yet to tell the others of its gradients, by weight",
    PROGRESS: "how far training had come: step, epoch, place in the corpus, best score",
    MANIFEST: "size and SHA-256 of the other files, to notice damage",
}


def answer_checkpoint_files(case: Case) -> Answer:
    """Name each file of the newest checkpoint and what is in it."""
    files = newest_files(case)
    if files is None:
        return reply(
            "checkpoint_files",
            "unknown",
            "No checkpoint has been saved yet.",
            advice="The first one is written after `checkpoint.every_steps` updates.",
        )
    names = sorted(
        files.sizes, key=lambda name: (ORDER.index(name) if name in ORDER else 9, name)
    )
    return reply(
        "checkpoint_files",
        "answered",
        f"{files.name} is made of {count(len(names), 'file')}: {listing(names)}.",
        values={
            "name": files.name,
            "files": files.sizes,
            "checkpoints_saved": len(case.run.saves),
        },
        evidence=[
            f"{name} ({amount_of_bytes(files.sizes[name])}): {_content(case, name)}"
            for name in names
        ],
        advice="To translate, the weights are enough; to go on training, all files are needed.",
    )


def _content(case: Case, name: str) -> str:
    if name != OPTIMIZER:
        return CONTENTS.get(name, "not a file this version knows")
    averages = ", and a moving average of the weights" * averages_of(case.run.config)
    return _optimizer_state(moments_of(case.run.config)) + averages


def _optimizer_state(moments: int | None) -> str:
    if moments == 0:
        return "the state of the optimizer, which keeps nothing for each weight (plain SGD)"
    if moments == 1:
        return "the state of the optimizer: its momentum, one number for each weight"
    if moments == 2:
        return "the state of Adam: mean and variance of the gradient, two numbers a weight"
    return "the state of the optimizer"
