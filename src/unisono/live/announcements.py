"""What has been said of a run, and what is new. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from unisono.diagnose.report import Finding
from unisono.live.window import BOTTLENECK, findings_of, recent_case, verdict_finding
from unisono.records.events import Found
from unisono.records.view import RunView

CERTAIN = 3  # looks in a row that must agree on a second verdict, or that something is over

Key = tuple[str, str]


@dataclass(frozen=True)
class Look:
    """What a look at the updates from `first_step` to `step` found; the verdict comes first."""

    time: float
    first_step: int
    step: int
    findings: tuple[Finding, ...]


def look_at(view: RunView, now: float) -> Look | None:
    """Return what can be found out at `now` (Unix time); None if there are too few updates."""
    case = recent_case(view, now)
    if case is None:
        return None
    steps = case.run.steps
    found = (verdict_finding(case), *findings_of(case))
    return Look(now, steps[0].step, steps[-1].step, found)


@dataclass
class _Standing:
    """A finding that was said: when it was last seen, and how many looks have missed it."""

    found: Found
    seen: int
    missed: int = 0


class FindingAnnouncer:
    """Knows what was said, also by the process that led the run before it was continued."""

    def __init__(self, said: Iterable[Found] = ()) -> None:
        self._standing: dict[Key, _Standing] = {}
        self._verdicts: set[str] = set()
        self._same_verdict: tuple[str, int] = ("", 0)
        for found in said:
            self._note(found)

    def news(self, look: Look) -> list[Found]:
        """Return what is to be said now, and what holds no longer."""
        told = [self._event(look, one) for one in look.findings if self._is_new(look, one)]
        over = [self._over(look, found) for found in self._gone(look)]
        for found in (*told, *over):
            self._note(found)
        return [*over, *told]

    def _is_new(self, look: Look, finding: Finding) -> bool:
        if finding.id == BOTTLENECK:
            return self._is_new_verdict(_about(finding))
        key = finding.id, _about(finding)
        if key not in self._standing:
            return True
        self._standing[key] = _Standing(self._standing[key].found, look.step)
        return False

    def _is_new_verdict(self, cause: str) -> bool:
        """Return whether a verdict was not given yet; a second one has to last."""
        before, times = self._same_verdict
        times = times + 1 if cause == before else 1
        self._same_verdict = cause, times
        lasts = times >= CERTAIN or not self._verdicts
        return cause not in self._verdicts and lasts

    def _gone(self, look: Look) -> Sequence[Found]:
        """Return what was last seen in updates of which none is looked at any more.

        Some looks must have missed it: those of a fast run have no updates in common.
        """
        here = {(one.id, _about(one)) for one in look.findings}
        gone = []
        for key, standing in self._standing.items():
            standing.missed += key not in here
            if standing.missed >= CERTAIN and standing.seen < look.first_step:
                gone.append(standing.found)
        return gone

    def _note(self, found: Found) -> None:
        key = found.id, found.about
        if found.id == BOTTLENECK:
            self._verdicts.add(found.about)
        elif found.over:
            self._standing.pop(key, None)
        else:
            self._standing[key] = _Standing(found, found.step)

    def _event(self, look: Look, finding: Finding) -> Found:
        return Found(
            time=look.time,
            step=look.step,
            id=finding.id,
            about=_about(finding),
            severity=finding.severity,
            summary=finding.summary,
            advice=finding.advice,
        )

    def _over(self, look: Look, found: Found) -> Found:
        return replace(found, time=look.time, step=look.step, advice="", over=True)


def _about(finding: Finding) -> str:
    return finding.about if isinstance(finding.about, str) else ""
