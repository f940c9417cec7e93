"""What a run does now: its last updates, what slows them down, and what is certain already."""

from dataclasses import dataclass, replace
from statistics import fmean

from msgspec.structs import replace as changed

from unisono.cost_model.strategies import AUTO, is_exact
from unisono.diagnose.answers.duration import seconds_left, updates_planned
from unisono.diagnose.bottleneck import IN_A_STEP, find_bottleneck
from unisono.diagnose.case import Case, open_case, open_without_ledger
from unisono.diagnose.diagnosis import exchange_name
from unisono.diagnose.evidence.ledger import Ledger, LedgerRow
from unisono.diagnose.evidence.spending import energy_so_far, spent_so_far
from unisono.diagnose.evidence.straggler import Late, late_of
from unisono.diagnose.report import Bottleneck, Finding
from unisono.diagnose.rules import RULES
from unisono.diagnose.wording import percent
from unisono.live.machines import MachineNow, machines_now
from unisono.records.events import Started, StepTaken
from unisono.records.view import RunView
from unisono.units import duration

BOTTLENECK = "bottleneck"
OVER = ("finished", "stopped", "failed")  # states of a run that makes no more updates
# The terminal shows these as they happen, or they matter to the report alone.
SAID_OTHERWISE = {"warnings", "lost_ranks", "drifted_ranks", "skipped_steps", "missing_ranks"}
# A model that is still learning may do this.
NEED_THE_END = {"empty_translations", "short_translations", "repeating_translations"}

WAYS_OUT = {
    "compute": "Nothing else slows it down.",
    "straggler": "See what else runs on the machine of the straggler.",
    "data": "Put the corpus on a local disk, and leave a core to the process that reads.",
    "evaluation": "Validate less often (`validation.every_steps`).",
    "checkpoint": "Save less often (`checkpoint.every_steps`).",
    "other": "`unisono report` shows what is known of it.",
}


def verdict(case: Case) -> str:
    """Say what slows the run down, its share, and what an update would take without it."""
    found = case.bottleneck
    if found.cause == "compute":
        return f"bound by arithmetic: {percent(found.shares.compute)} of the time"
    names = {
        "network": f"bound by {exchange_name(case)}",
        "straggler": f"waiting for {_late(late_of(case.ledger))}",
        "data": "waiting for data",
        "evaluation": "slowed down by validation",
        "checkpoint": "slowed down by checkpoints",
        "other": "slowed down by something the ledger does not explain",
    }
    between = found.cause not in IN_A_STEP
    without = None if between else found.without_it_seconds_per_step
    more = f"; without it a step would take {duration(without)}" if without else ""
    return f"{names[found.cause]}: {percent(found.share)} of the time{more}"


def verdict_finding(case: Case) -> Finding:
    """Return the verdict as a finding, with what to do about it."""
    cause, late = case.bottleneck.cause, late_of(case.ledger)
    known = f", {late.name}" if late and cause == "straggler" else ""
    return Finding(
        id=BOTTLENECK,
        severity="info",
        summary=f"{verdict(case)}.",
        advice=_way_out(case, cause),
        about=f"{cause}{known}",
    )


def findings_of(case: Case) -> tuple[Finding, ...]:
    """Return what is certain while the run goes on, and is not said otherwise."""
    rules = [rule for name, rule in RULES.items() if name not in SAID_OTHERWISE | NEED_THE_END]
    return tuple(finding for rule in rules for finding in rule(case))


def _late(late: Late | None) -> str:
    if late is None:
        return "a late process"
    return late.words if late.host else f"a late process ({late.words})"


def _way_out(case: Case, cause: str) -> str:
    if cause != "network":
        return WAYS_OUT[cause]
    if len(case.run.hosts) == 1:
        return "Fewer processes with more threads each exchange less."
    if is_exact(case.run.last_starts[0].strategy):
        return (
            f'Try `sync.strategy = "{AUTO}"`, or larger updates (`batching.tokens_per_update`).'
        )
    return "Make updates larger (`batching.tokens_per_update`), or send less of each gradient."


LANE_CAUSES = ("compute", "network", "waiting", "data", "other")
FEWEST = 5  # updates to say anything about
FEWEST_PAUSES = 3  # one validation does not tell how often they come


@dataclass(frozen=True)
class RankTimes:
    """One process: where it is, and the shares of its time."""

    rank: int
    host: str
    seconds: float
    shares: dict[str, float]


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, and how fast. `updates` are those planned, 0 if nothing says so."""

    state: str
    step: int
    updates: int
    seconds_per_step: float
    tokens_per_second: float
    seconds_left: float | None


@dataclass(frozen=True)
class CurrentState(RunProgress):
    """The state of a run, and what it does right now."""

    lanes: tuple[RankTimes, ...]
    bottleneck: Bottleneck | None
    verdict: str
    findings: tuple[Finding, ...] = ()
    machines: tuple[MachineNow, ...] = ()
    cost: str = ""
    energy: str = ""


def now_of(view: RunView, now: float, whole: Case | None = None) -> CurrentState:
    """Return the state of the run of `view` at `now` (Unix time).

    `whole` is a case on all of its updates, which say what its cost was spent on.
    """
    case, recent = open_without_ledger(view, now), recent_case(view, now)
    progress = progress_of(case)
    is_over = progress.state in ("finished", "stopped")
    return CurrentState(
        **vars(progress),
        lanes=_lanes(view, recent.ledger.usual if recent else ()),
        bottleneck=recent.bottleneck if recent else None,
        verdict=verdict(recent) if recent else "",
        findings=findings_of(recent) if recent else (),
        machines=() if is_over else machines_now(view, now),
        cost=spent_so_far(case, whole),
        energy=energy_so_far(case, whole.joules) if whole else "",
    )


def progress_of(case: Case) -> RunProgress:
    """Return how far the run of `case` is; the ledger does not matter."""
    run, standing = case.run, case.state
    steps = run.steps[1:] or run.steps
    seconds = sum(step.seconds for step in steps)
    tokens = sum(step.target_tokens for step in steps)
    return RunProgress(
        state=standing,
        step=steps[-1].step if steps else 0,
        updates=updates_planned(case),
        seconds_per_step=seconds / len(steps) if steps else 0.0,
        tokens_per_second=tokens / max(1e-9, seconds),
        seconds_left=seconds_left(case) if standing == "running" else None,
    )


def recent_case(view: RunView, now: float) -> Case | None:
    """Open a case on the last updates of the last start; None if they are too few.

    The first update of a start is left out: it is slower than all others.
    """
    window = _window(view)
    if len(window.steps) < FEWEST:
        return None
    case = open_case(window, now)
    ledger = _without_rare_pauses(case.ledger, window)
    return replace(case, ledger=ledger, bottleneck=find_bottleneck(ledger))


def _window(view: RunView) -> RunView:
    """Return the run as if it had begun with the updates that are kept."""
    starts = {start.rank: start for start in view.last_starts}
    ranks = {
        rank: tuple(step for step in steps if _is_usual(step, starts.get(rank)))
        for rank, steps in view.ranks.items()
    }
    # Machines have clocks of their own.
    began = {rank: steps[0].time - steps[0].seconds for rank, steps in ranks.items() if steps}
    since = began.get(0, 0.0)
    return replace(
        view,
        starts=tuple(changed(s, time=began.get(s.rank, s.time)) for s in view.last_starts),
        ranks=ranks,
        validations=tuple(event for event in view.validations if event.time >= since),
        saves=tuple(event for event in view.saves if event.time >= since),
        tests=(),
        ends=(),
        seen=(),
    )


def _is_usual(step: StepTaken, start: Started | None) -> bool:
    """Return whether an update belongs to the last start, and is not its first."""
    return start is None or (step.time >= start.time and step.step > start.step + 1)


def _without_rare_pauses(ledger: Ledger, window: RunView) -> Ledger:
    """Leave out validations and checkpoints that are too few, and what nobody recorded."""
    evaluation = ledger.evaluation if len(window.validations) >= FEWEST_PAUSES else 0.0
    checkpoint = ledger.checkpoint if len(window.saves) >= FEWEST_PAUSES else 0.0
    updates = sum(row.seconds for row in ledger.rows)
    return replace(
        ledger,
        wall=updates + evaluation + checkpoint,
        evaluation=evaluation,
        checkpoint=checkpoint,
    )


def _lanes(view: RunView, rows: tuple[LedgerRow, ...]) -> tuple[RankTimes, ...]:
    wires = {row.step: row.wire for row in rows}
    hosts = {start.rank: start.host for start in view.last_starts}
    lanes = []
    for rank in sorted(hosts):
        steps = [step for step in view.ranks.get(rank, ()) if step.step in wires]
        if steps:
            parts = [_shares(step, wires[step.step]) for step in steps]
            shares = {cause: fmean(part[cause] for part in parts) for cause in LANE_CAUSES}
            seconds = fmean(step.seconds for step in steps)
            lanes.append(RankTimes(rank, hosts[rank], seconds, shares))
    return tuple(lanes)


def _shares(step: StepTaken, wire: float) -> dict[str, float]:
    whole = max(step.seconds, 1e-9)
    exchange = step.exchange + step.agree
    known = {
        "compute": step.forward + step.backward + step.optimizer,
        "network": min(wire, exchange),
        "waiting": max(0.0, exchange - wire),
        "data": step.data,
    }
    known["other"] = max(0.0, whole - sum(known.values()))
    return {cause: seconds / whole for cause, seconds in known.items()}
