"""What a run does now: its last updates, by themselves."""

from dataclasses import dataclass
from statistics import fmean

from msgspec.structs import replace

from unisono.diagnose.case import open_case
from unisono.diagnose.headline import exchange_name
from unisono.diagnose.ledger import Row
from unisono.diagnose.liveness import state
from unisono.diagnose.report import Bottleneck
from unisono.diagnose.words import percent
from unisono.records.events import StepTaken
from unisono.records.view import RunView

CAUSES = ("compute", "network", "waiting", "data", "other")
FEWEST = 5  # updates to say anything about


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


def now_of(view: RunView, now: float) -> Now:
    """Return how it stands with the run of `view` at `now` (Unix time)."""
    case = open_case(view, now)
    steps = view.steps[1:] or view.steps
    each = fmean(step.seconds for step in steps) if steps else 0.0
    tokens = sum(step.target_tokens for step in steps)
    updates = int(case.setting("train", "max_steps", 0))
    step = view.steps[-1].step if view.steps else 0
    recent = open_case(_recent(view), now) if len(view.steps) >= FEWEST else None
    return Now(
        state=state(case),
        step=step,
        updates=updates,
        seconds_per_step=each,
        tokens_per_second=tokens / max(1e-9, sum(step.seconds for step in steps)),
        seconds_left=_left(view, step, updates),
        lanes=_lanes(view, recent.ledger.usual if recent else ()),
        bottleneck=recent.bottleneck if recent else None,
        verdict=_verdict(recent.bottleneck, exchange_name(recent)) if recent else "",
    )


def _recent(view: RunView) -> RunView:
    """Return the run as if it had begun with the updates that are kept."""
    first = view.steps[0]
    began = first.time - first.seconds
    starts = tuple(replace(start, time=began) for start in view.last_starts)
    return RunView(
        path=view.path,
        config=view.config,
        starts=starts,
        ranks=view.ranks,
        validations=tuple(e for e in view.validations if e.time >= began),
        saves=tuple(e for e in view.saves if e.time >= began),
    )


def _left(view: RunView, step: int, updates: int) -> float | None:
    """Return the seconds to the last update at the pace of late, pauses included."""
    if not updates or len(view.steps) < FEWEST:
        return None
    first, last = view.steps[0], view.steps[-1]
    pace = (last.time - first.time) / max(1, last.step - first.step)
    return pace * max(0, updates - step)


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


def _verdict(found: Bottleneck, exchange: str) -> str:
    if found.cause == "compute":
        return f"bound by arithmetic: {percent(found.shares.compute)} of the time"
    who = f" (rank {found.culprit})" if found.culprit is not None else ""
    names = {
        "network": f"bound by {exchange}",
        "straggler": f"waiting for a late process{who}",
        "data": "waiting for data",
        "evaluation": "held up by validation",
        "checkpoint": "held up by checkpoints",
        "other": "held up by what the ledger does not explain",
    }
    without = found.without_it_seconds_per_step
    more = f"; without it a step would take {without:.3g} s" if without else ""
    return f"{names[found.cause]}: {percent(found.share)} of the time{more}"
