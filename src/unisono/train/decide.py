"""What is due after an update. Pure: the same answer on every process."""

from unisono.config.settings import Settings
from unisono.train.progress import Progress


def end_of(progress: Progress, settings: Settings, updates_in_epoch: int) -> str:
    """Return the limit that has been reached, or "" if training goes on.

    Limits by the clock are not here: processes' clocks differ, so they ask for a stop and
    all agree on it.
    """
    limits = settings.train
    if limits.max_steps and progress.step >= limits.max_steps:
        return "max_steps"
    epochs_done = progress.epoch - (progress.position < updates_in_epoch)
    if limits.max_epochs and epochs_done >= limits.max_epochs:
        return "max_epochs"
    if limits.patience and progress.validations_since_best >= limits.patience:
        return "patience"
    return ""


def validation_is_due(progress: Progress, settings: Settings) -> bool:
    """Whether this step is one of those that are validated."""
    return progress.step > 0 and progress.step % settings.validation.every_steps == 0


def save_is_due(progress: Progress, settings: Settings) -> bool:
    """Whether this step is one of those that are saved."""
    return progress.step > 0 and progress.step % settings.checkpoint.every_steps == 0
