"""How far a run is: all that is needed, besides the tensors, to go on exactly."""

import msgspec


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A position in a run. `position` counts the updates already made in `epoch`."""

    format: int = 1
    step: int = 0
    epoch: int = 1
    position: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    best_step: int = 0
    best_score: float = 0.0
    best_loss: float = 0.0
    best_bleu: float = -1.0
    validations_since_best: int = 0
    last_validated: int = 0


def after_update(
    progress: Progress, *, epoch: int, position: int, tokens: int, seconds: float
) -> Progress:
    """Return the progress after the update at `position` (counted from 0) of `epoch`."""
    return msgspec.structs.replace(
        progress,
        step=progress.step + 1,
        epoch=epoch,
        position=position + 1,
        target_tokens=progress.target_tokens + tokens,
        seconds=progress.seconds + seconds,
    )


def after_validation(
    progress: Progress, *, loss: float, bleu: float, by: str, seconds: float
) -> Progress:
    """Return the progress after a validation; the higher score is the better one."""
    score = bleu if by == "bleu" else -loss
    progress = msgspec.structs.replace(
        progress, last_validated=progress.step, seconds=progress.seconds + seconds
    )
    if progress.best_step and score <= progress.best_score:
        since = progress.validations_since_best + 1
        return msgspec.structs.replace(progress, validations_since_best=since)
    return msgspec.structs.replace(
        progress,
        best_step=progress.step,
        best_score=score,
        best_loss=loss,
        best_bleu=bleu,
        validations_since_best=0,
    )
