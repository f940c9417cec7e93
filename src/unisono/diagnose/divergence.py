"""Has training broken down?"""

from statistics import median

from unisono.diagnose.breakdown import DEVIATIONS, noise_of_updates
from unisono.diagnose.case import Case
from unisono.diagnose.curve import is_finite, loss_curve, number, window_losses

FAR_ABOVE_BEST = 1.10
FAR_ABOVE_BEST_UNCHECKED = 1.25
LOST_UPDATES = 3
LAST_UPDATES = 20


def divergence(case: Case) -> str:
    """Return in a clause how training broke down, or "" if it did not.

    A validation loss that rises while the training loss falls is overfitting, not divergence;
    so both have to be far above their best. One validation says little: if only the last is
    bad, or none came since, the loss of the last updates has to be further above, and beyond
    its noise.
    """
    return _not_a_number(case) or _far_above_best(case)


def _not_a_number(case: Case) -> str:
    validations, last = case.run.validations, case.run.steps[-LOST_UPDATES:]
    if loss_curve(validations) and not is_finite(validations[-1].loss):
        return f"the validation loss at step {validations[-1].step:,} is not a finite number"
    if len(last) == LOST_UPDATES and not any(is_finite(step.loss) for step in last):
        return f"the training loss is not a finite number since step {last[0].step:,} or before"
    return ""


def _far_above_best(case: Case) -> str:
    training = window_losses(case.run.steps)
    if len(training) < 3:
        return ""
    best, last = min(training), training[-1]
    losses = [loss for _, loss in loss_curve(case.run.validations)]
    if len(losses) < 3:
        if last > FAR_ABOVE_BEST_UNCHECKED * best:
            return f"the training loss rose from {best:.3f} to {last:.3f}"
        return ""
    if last > FAR_ABOVE_BEST * best and min(losses[-2:]) > FAR_ABOVE_BEST * min(losses):
        return (
            f"the validation loss rose from {min(losses):.3f} to {losses[-1]:.3f} and the "
            f"training loss with it, from {best:.3f} to {last:.3f}"
        )
    return _at_the_end(case, best, losses)


def _at_the_end(case: Case, best: float, losses: list[float]) -> str:
    """Return how training broke down after the last validation, or shortly before it."""
    known = [number(step.loss) for step in case.run.steps if is_finite(step.loss)]
    recent, before = known[-LAST_UPDATES:], known[:-LAST_UPDATES]
    above = max((FAR_ABOVE_BEST_UNCHECKED - 1) * best, DEVIATIONS * noise_of_updates(before))
    if median(recent) <= best + above:
        return ""
    rise = f"the training loss rose from {best:.3f} to {median(recent):.3f} in the last updates"
    if losses[-1] > FAR_ABOVE_BEST_UNCHECKED * min(losses):
        return f"{rise}, and the validation loss from {min(losses):.3f} to {losses[-1]:.3f}"
    seen = case.run.validations[-1].step > case.run.steps[-LAST_UPDATES].step
    return "" if seen else f"{rise}, after the last validation"
