"""Is the run finished, stopped, failed or running?"""

from statistics import median

from unisono.diagnose.case import Case

FINISHED = ("max_steps", "max_epochs", "max_time", "patience")
STEPS_OF_SILENCE = 10
LEAST_SILENCE = 20.0
FIRST_SIGN = 600.0
UNSEEN_INTERRUPTION = 1800.0


def state(case: Case) -> str:
    """Return finished, stopped, failed, running, or unknown where nothing was recorded."""
    if not case.sessions:
        return "unknown"
    reason = case.sessions[-1].reason
    if case.run.imported is not None:
        return "finished" if reason else "unknown"
    if reason:
        return "finished" if reason in FINISHED else "stopped"
    if case.run.gone:
        return "failed"
    return "running" if case.run.alive or silence(case) <= patience(case) else "failed"


def silence(case: Case) -> float:
    """Return the seconds since the last sign of life."""
    return max(0.0, case.now - case.sessions[-1].last_seen)


def patience(case: Case) -> float:
    """Return how long this run may be silent before it counts as dead.

    That is a few of its usual steps, and more where a validation or a checkpoint is due, which
    say nothing until they are done.
    """
    recent = [step for step in case.run.steps[-50:] if step.time >= case.sessions[-1].began]
    if not recent:
        return FIRST_SIGN
    usual = max(LEAST_SILENCE, STEPS_OF_SILENCE * median(step.seconds for step in recent))
    pauses = [event.seconds for event in case.run.validations]
    pauses += [event.seconds for event in case.run.saves]
    if _interruption_is_due(case, recent[-1].step):
        return usual + max(3 * max(pauses, default=0.0), 0.0 if pauses else UNSEEN_INTERRUPTION)
    return usual + max(pauses, default=0.0)


def _interruption_is_due(case: Case, step: int) -> bool:
    every = [
        int(case.setting(table, "every_steps", 0)) for table in ("validation", "checkpoint")
    ]
    if int(case.setting("train", "max_steps", 0)) == step:
        return True
    return any(steps > 0 and step % steps == 0 for steps in every)
