"""How long did the run take, and how long will it still take?"""

from typing import Any

from unisono.diagnose.case import Case
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, percent, rounded
from unisono.errors import ConfigError
from unisono.units import duration, seconds_of

RECENT_UPDATES = 200
END_REASONS = {
    "max_steps": "it reached `train.max_steps`",
    "max_epochs": "it reached `train.max_epochs`",
    "max_time": "it reached `train.max_time`",
    "patience": "validation had not improved for as long as `train.patience` allows",
    "signal": "a signal asked it to stop, and it saved first",
}


def answer_duration(case: Case) -> Answer:
    """Say whether the run is over, how long it took in all, and how long is left."""
    verdict = case.state
    if verdict == "unknown":
        return reply(
            "duration",
            "unknown",
            "No process has recorded anything yet.",
            advice="Start the run, or check that it can write to its directory.",
        )
    left = seconds_left(case) if verdict == "running" else None
    return reply(
        "duration",
        verdict,
        _summary(case, verdict, left),
        values=_values(case, verdict, left),
        evidence=_evidence(case, verdict),
        advice=_advice(case, verdict),
    )


def elapsed(case: Case) -> float:
    """Return the seconds over all sessions; a running one goes on until now."""
    total = sum(session.seconds for session in case.sessions)
    return total + (case.silence if case.state == "running" else 0.0)


def seconds_left(case: Case) -> float | None:
    """Return the seconds until the nearest limit at the recent pace, or None if unknown."""
    limits = []
    planned = updates_planned(case)
    began = case.sessions[-1].began
    recent = [step for step in case.run.steps if step.time >= began][-RECENT_UPDATES:]
    if planned and len(recent) > 1:
        pace = (recent[-1].time - recent[0].time) / (len(recent) - 1)
        limits.append(max(0.0, (planned - recent[-1].step) * pace - case.silence))
    try:
        most = seconds_of(str(case.run.config.get("train", {}).get("max_time", "")))
        limits.append(max(0.0, most - elapsed(case)))
    except ConfigError:
        pass  # no limit in time was set
    return min(limits, default=None)


def updates_planned(case: Case) -> int:
    """Return the update with which the run will end at the latest; 0 if nothing says so."""
    limits = [int(case.setting("train", "max_steps", 0))]
    epoch = case.run.last_starts[0].updates_per_epoch if case.run.last_starts else 0
    limits.append(epoch * int(case.setting("train", "max_epochs", 0)))
    return min((limit for limit in limits if limit > 0), default=0)


def _unclean(case: Case) -> int:
    return sum(not session.reason for session in case.sessions[:-1])


def _summary(case: Case, verdict: str, left: float | None) -> str:
    took = ("at least " if _unclean(case) else "") + duration(elapsed(case))
    updates = count(case.run.steps[-1].step if case.run.steps else 0, "update")
    reason = case.sessions[-1].reason
    if verdict == "running":
        more = "; how long it will still take is unknown" if left is None else ""
        more = f"; about {duration(left)} to go" if left is not None else more
        still = ""
        if case.silence > case.patience:
            still = (
                f" Its process is alive, but has recorded nothing for {duration(case.silence)}."
            )
        return f"The run is going on: {took} so far, {updates}{more}.{still}"
    if verdict == "failed":
        return (
            f"The run broke off: it recorded {took} and {updates}, then nothing for "
            f"{duration(case.silence)}, and no end."
        )
    why = END_REASONS.get(reason, f"its reason is `{reason}`")
    return f"The run took {took} for {updates} and {verdict}: {why}."


def _values(case: Case, verdict: str, left: float | None) -> dict[str, Any]:
    return {
        "seconds": rounded(elapsed(case), 3),
        "seconds_left": rounded(left, 1),
        "updates": case.run.steps[-1].step if case.run.steps else 0,
        "starts": len(case.sessions),
        "restarts": len(case.sessions) - 1,
        "reason": case.sessions[-1].reason,
        "seconds_since_last_event": None
        if verdict in ("finished", "stopped")
        else rounded(case.silence, 1),
    }


def _evidence(case: Case, verdict: str) -> list[str]:
    lines = [*_about_starts(case), *(_about_the_end(case) if verdict == "failed" else ())]
    if verdict in ("running", "failed"):
        lines.append(f"last event {duration(case.silence)} ago, no `ended` event since")
    else:
        lines.append(f"rank 0 recorded `ended` with the reason `{case.sessions[-1].reason}`")
    ledger = case.ledger
    if ledger.rows and ledger.starting + ledger.ending > 0:
        lines.append(
            f"apart from evaluation and checkpoints, {duration(ledger.starting)} passed before "
            f"the first update of each start, and {duration(ledger.ending)} after the last"
        )
    if ledger.rows and case.run.imported is None:
        lines.append(
            f"the ledger explains {percent(ledger.closed)} of the time, and "
            f"{percent(ledger.closed_between)} of that from the first to the last update"
        )
    return lines


def _about_starts(case: Case) -> list[str]:
    lines = []
    if len(case.sessions) > 1:
        lengths = ", ".join(duration(session.seconds) for session in case.sessions)
        lines.append(f"started {len(case.sessions)} times, for {lengths}")
    if _unclean(case):
        lines.append("an earlier start broke off, and when is unknown")
    if case.run.undone > 0:
        lines.append(
            f"a crash or a roll-back undid {duration(case.run.undone)} of updates, validations "
            "and checkpoints, which the run did again"
        )
    return lines


def _about_the_end(case: Case) -> list[str]:
    lines = [event.message for event in case.run.losses[-1:]]
    lines += [f"its last message: {case.run.message}"] if case.run.message else []
    lines += ["the leading process is gone"] if case.run.gone else []
    return lines


def _advice(case: Case, verdict: str) -> str:
    if verdict == "failed":
        saved = f"from {case.run.saves[-1].name}" if case.run.saves else "from the beginning"
        return f"Read the last lines of the processes' logs; the same command resumes {saved}."
    if verdict == "stopped":
        return "The same command resumes where it stopped."
    return ""
