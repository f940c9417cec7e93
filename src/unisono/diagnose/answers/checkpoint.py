"""Which files is a checkpoint made of, and how big is it?"""

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.run_files import (
    BYTES_PER_NUMBER,
    EXCHANGE,
    MANIFEST,
    OPTIMIZER,
    PROGRESS,
    WEIGHTS,
    Files,
    averages_of,
    moments_of,
    newest_files,
)
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, listing, percent, rounded
from unisono.units import amount_of_bytes

FILE_ORDER = [WEIGHTS, OPTIMIZER, EXCHANGE, PROGRESS, MANIFEST]
CONTENTS = {
    WEIGHTS: "the weights of the model, by name: all that translating needs",
    EXCHANGE: "the residuals of each process (error feedback): gradients it has yet to send, "
    "by weight",
    PROGRESS: "how far training has come: step, epoch, place in the corpus, best score",
    MANIFEST: "size and SHA-256 of the other files, to notice damage",
}


def answer_checkpoint_files(case: Case) -> Answer:
    """Name each file of the newest checkpoint and what is in it."""
    files = newest_files(case.run)
    if files is None:
        return reply(
            "checkpoint_files",
            "unknown",
            "No checkpoint has been saved yet.",
            advice="The run saves the first after `checkpoint.every_steps` updates.",
        )
    names = sorted(
        files.sizes,
        key=lambda name: (FILE_ORDER.index(name) if name in FILE_ORDER else 9, name),
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
        advice="Translating needs the weights alone; resuming the training needs all files.",
    )


def _content(case: Case, name: str) -> str:
    if name != OPTIMIZER:
        return CONTENTS.get(name, "a file that this version does not know")
    averages = ", and a moving average of the weights" * averages_of(case.run.config)
    return _optimizer_state(moments_of(case.run.config)) + averages


def _optimizer_state(moments: int | None) -> str:
    if moments == 0:
        return "the state of the optimizer; plain SGD keeps nothing for each weight"
    if moments == 1:
        return "the state of the optimizer: its momentum, one number for each weight"
    if moments == 2:
        return (
            "the state of Adam: mean and variance of the gradient, two numbers for each weight"
        )
    return "the state of the optimizer"


# Names and shapes of tensors, progress and manifest take some room of their own.
OVERHEAD_BYTES = 64_000
OVERHEAD_SHARE = 0.02


def answer_checkpoint_size(case: Case) -> Answer:
    """Weigh the newest checkpoint and do the arithmetic."""
    files = newest_files(case.run)
    if files is None:
        return reply("checkpoint_size", "unknown", "No checkpoint has been saved yet.")
    moments = moments_of(case.run.config)
    if not case.parameters or moments is None:
        return reply(
            "checkpoint_size",
            "unknown",
            f"{files.name} has {amount_of_bytes(files.bytes)}, but the run recorded no number "
            "of parameters or no optimizer to check that against.",
            values={"bytes": files.bytes, "expected_bytes": None, "files": files.sizes},
        )
    return _answered(case, files, moments, averages_of(case.run.config))


def _numbers(case: Case, times: int) -> str:
    if case.trained < case.parameters:
        return f"4 bytes × the state of {case.trained:,} parameters that are not frozen"
    return f"{case.parameters:,} × 4 bytes × {times}"


def _answered(case: Case, files: Files, moments: int, averages: int) -> Answer:
    weights = BYTES_PER_NUMBER * case.parameters
    exchange = files.sizes.get(EXCHANGE, 0)
    # Frozen parameters have no moments.
    optimizer = BYTES_PER_NUMBER * (moments * case.trained + averages * case.parameters)
    expected = weights + optimizer + exchange
    off = files.bytes - expected
    fits = abs(off) <= OVERHEAD_BYTES + OVERHEAD_SHARE * expected
    if case.trained < case.parameters:
        kept = f", the optimizer's state of {case.trained:,} that are not frozen "
        kept += amount_of_bytes(BYTES_PER_NUMBER * moments * case.trained)
    else:
        kept = {0: "", 1: ", the optimizer's momentum as much again"}.get(
            moments, ", the two moments of Adam twice as much again"
        )
    kept += ", the moving average of the weights as much again" if averages else ""
    kept += f", the state of the exchange {amount_of_bytes(exchange)}" if exchange else ""
    moments += averages
    verdict = "which explains its size" if fits else "which does NOT explain its size"
    return reply(
        "checkpoint_size",
        "answered",
        f"{amount_of_bytes(files.bytes)}: {case.parameters:,} parameters of 4 bytes take "
        f"{amount_of_bytes(weights)}{kept}; together {amount_of_bytes(expected)}, {verdict}.",
        values={
            "bytes": files.bytes,
            "expected_bytes": expected,
            "parameters": case.parameters,
            "numbers_per_parameter": 1 + moments,
            "difference": rounded(off / expected, 5),
            "files": files.sizes,
        },
        evidence=[
            f"{amount_of_bytes(files.sizes.get(WEIGHTS, 0))} {WEIGHTS}, expected "
            f"{amount_of_bytes(weights)} = {case.parameters:,} × 4 bytes",
            f"{amount_of_bytes(files.sizes.get(OPTIMIZER, 0))} {OPTIMIZER}, expected "
            f"{amount_of_bytes(optimizer)} = {_numbers(case, moments)}",
            f"difference {percent(off / expected)}; sizes are {files.source}",
            f"{count(len(case.run.saves), 'checkpoint')} saved in all; "
            f"`checkpoint.keep` says how many stay",
        ],
        advice=""
        if fits
        else "Look at the files: they hold something else, or lack something.",
    )
