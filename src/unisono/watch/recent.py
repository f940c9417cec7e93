"""What a run does now: its last updates, by themselves."""

from dataclasses import dataclass, replace
from statistics import fmean

from msgspec.structs import replace as changed

from unisono.diagnose.answers.duration import seconds_left, updates_planned
from unisono.diagnose.bottleneck import find_bottleneck
from unisono.diagnose.case import Case, open_case
from unisono.diagnose.evidence.ledger import Ledger, Row
from unisono.diagnose.evidence.liveness import state
from unisono.diagnose.report import Bottleneck, Finding
from unisono.records.events import Started, StepTaken
from unisono.records.view import RunView
from unisono.watch.machines import MachineNow, machines_now
from unisono.watch.verdict import findings_of, verdict

CAUSES = ("compute", "network", "waiting", "data", "other")
FEWEST = 5  # updates to say anything about
FEWEST_PAUSES = 3  # one validation does not tell how often they come


@dataclass(frozen=True)
class Lane:
    """One process: where it is, and the shares of its time."""

    rank: int
    host: str
    seconds: float
    shares: dict[str, float]


@dataclass(frozen=True)
class Now:
    """How it stands with a run."""

    state: str
    step: int
    updates: int
    seconds_per_step: float
    tokens_per_second: float
    seconds_left: float | None
    lanes: tuple[Lane, ...]
    bottleneck: Bottleneck | None
    verdict: str
    findings: tuple[Finding, ...] = ()
    machines: tuple[MachineNow, ...] = ()


def now_of(view: RunView, now: float) -> Now:
    """Return how it stands with the run of `view` at `now` (Unix time)."""
    case, recent = open_case(view, now), recent_case(view, now)
    steps = view.steps[1:] or view.steps
    each = fmean(step.seconds for step in steps) if steps else 0.0
    tokens = sum(step.target_tokens for step in steps)
    step = view.steps[-1].step if view.steps else 0
    standing = state(case)
    is_over = standing in ("finished", "stopped")
    return Now(
        state=standing,
        step=step,
        updates=updates_planned(case),
        seconds_per_step=each,
        tokens_per_second=tokens / max(1e-9, sum(step.seconds for step in steps)),
        seconds_left=seconds_left(case) if standing == "running" else None,
        lanes=_lanes(view, recent.ledger.usual if recent else ()),
        bottleneck=recent.bottleneck if recent else None,
        verdict=verdict(recent) if recent else "",
        findings=findings_of(recent) if recent else (),
        machines=() if is_over else machines_now(view, now),
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


def _lanes(view: RunView, rows: tuple[Row, ...]) -> tuple[Lane, ...]:
    wires = {row.step: row.wire for row in rows}
    hosts = {start.rank: start.host for start in view.last_starts}
    lanes = []
    for rank in sorted(hosts):
        steps = [step for step in view.ranks.get(rank, ()) if step.step in wires]
        if steps:
            parts = [_shares(step, wires[step.step]) for step in steps]
            shares = {cause: fmean(part[cause] for part in parts) for cause in CAUSES}
            seconds = fmean(step.seconds for step in steps)
            lanes.append(Lane(rank, hosts[rank], seconds, shares))
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
