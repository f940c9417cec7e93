"""Does the report say what was done to the run?"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from diagnosis.course import Course, Outcome
from diagnosis.said import Live, live, said_besides
from diagnosis.truth import Truth, Twins, claimed

CARRIED = 0.955  # of a shaped rate, without headers
NAMED_WITHIN = 10.0


@dataclass(frozen=True)
class Judgement:
    """What was said of one run, and what of it is right; None is not asked for.

    `claimed` and `true` are shares; `also` are findings beside the one that was expected, and
    `false` those of them, or of what the run said of itself, that the fault does not explain.
    `live` is when the training itself said it.
    """

    said: str
    verdict: bool
    culprit: bool | None = None
    claimed: float | None = None
    true: float | None = None
    also: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    live: Live | None = None

    @property
    def is_flawless(self) -> bool:
        """Return whether the right thing was said, in time, and nothing else."""
        late = self.live is not None and self.live.in_time is False
        return self.verdict and self.culprit is not False and not late and not self.false

    @property
    def points(self) -> float | None:
        """Return by how many points the share is off."""
        if self.claimed is None or self.true is None:
            return None
        return 100 * (self.claimed - self.true)


Judge = Callable[[Outcome, Course, Twins], Judgement]
Check = Callable[[Outcome], bool]


def false_alarms(
    outcome: Outcome, also: Collection[str], implied: Collection[str]
) -> tuple[str, ...]:
    """Return findings of the report, or of the run while it went on, that nothing explains."""
    reported = {name for name in also if name not in implied}
    expected = {name for name in outcome.findings if name not in also}
    allowed = {*implied, *expected, *also}
    return (*sorted(reported), *(f"{n} (live)" for n in said_besides(outcome.view, allowed)))


def healthy(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
    """Nothing is wrong: arithmetic sets the pace, and there is no finding."""
    cause, found = outcome.report.bottleneck.cause, outcome.findings
    return Judgement(_said(outcome), cause == "compute" and not found, also=found)


def slowed_by(
    cause: str, finding: str = "", culprit: Check | None = None, truth: Truth | None = None
) -> Judge:
    """Return the judge of a run whose time went into `cause`, told by `finding`."""

    def judge(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
        named = outcome.report.bottleneck.cause == cause
        found = not finding or finding in outcome.findings
        return Judgement(
            said=_said(outcome),
            verdict=named and found,
            culprit=culprit(outcome) if culprit else None,
            claimed=claimed(outcome) if truth and named else None,
            true=truth(outcome, course, twins) if truth else None,
            also=tuple(name for name in outcome.findings if name != finding),
            live=live(outcome, finding, cause),
        )

    return judge


def padded(truth: Truth) -> Judge:
    """Return the judge of a run that computes on padding, which no clock tells from computing.

    Batches of any length also take turns at being late, so the cause is not asked for; but
    nothing else is to be found.
    """

    def judge(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
        text = outcome.finding("padding")
        share = re.match(r"([\d.]+) %", text)
        return Judgement(
            said=_said(outcome),
            verdict=outcome.findings == ("padding",),
            claimed=float(share[1]) / 100 if share else None,
            true=truth(outcome, course, twins),
            also=tuple(name for name in outcome.findings if name != "padding"),
            live=live(outcome, "padding"),
        )

    return judge


def lost(how: str) -> Judge:
    """Return the judge of a run that lost rank 1, and said so in time."""

    def judge(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
        text, losses = outcome.finding("lost_ranks"), outcome.view.losses
        seconds = losses[0].time - outcome.notes["at"] if losses else float("inf")
        said = f"{losses[0].message}, after {seconds:.1f} s" if losses else "nothing"
        return Judgement(
            said=said,
            verdict=how in text and seconds <= NAMED_WITHIN,
            culprit="rank 1 on node1" in text,
            also=tuple(name for name in outcome.findings if name != "lost_ranks"),
        )

    return judge


def finds(finding: str, culprit: Check) -> Judge:
    """Return the judge of a run in which one thing is to be found, whatever it costs."""

    def judge(outcome: Outcome, course: Course, twins: Twins) -> Judgement:
        return Judgement(
            said=outcome.finding(finding).split("\n")[0] or "nothing",
            verdict=finding in outcome.findings,
            culprit=culprit(outcome),
            also=tuple(name for name in outcome.findings if name != finding),
        )

    return judge


def late(rank: int, why: str) -> Check:
    """Check that a rank is named, and why it is late."""

    def check(outcome: Outcome) -> bool:
        named = outcome.report.bottleneck.culprit == rank
        return named and f"rank {rank}: {why}" in outcome.finding("straggler")

    return check


def late_machine(host: str, ranks: Collection[int]) -> Check:
    """Check that a machine is named, and one of its ranks."""

    def check(outcome: Outcome) -> bool:
        text = outcome.finding("straggler")
        return outcome.report.bottleneck.culprit in ranks and f"processes on {host}" in text

    return check


def link_carries(mbit_per_s: float) -> Check:
    """Check the rate of the link that the report tells, to a twentieth."""

    def check(outcome: Outcome) -> bool:
        told = outcome.report.answer("network").values["link_mbit_per_s"]
        return told is not None and abs(told / (CARRIED * mbit_per_s) - 1) <= 0.05

    return check


def says(finding: str, *words: str) -> Check:
    """Check that a finding holds some words."""
    return lambda outcome: all(word in outcome.finding(finding) for word in words)


def changed(before: float, after: float) -> Check:
    """Check the update at which a link became slower, and its rates, to a tenth."""

    def check(outcome: Outcome) -> bool:
        numbers = r"at step ([\d,]+): (\d+) Mbit/s before, (\d+) Mbit/s after"
        match = re.search(numbers, outcome.finding("burst_credits"))
        if match is None:
            return False
        step, fast, slow = (int(word.replace(",", "")) for word in match.groups())
        rates = abs(fast / (CARRIED * before) - 1), abs(slow / (CARRIED * after) - 1)
        return abs(step - outcome.notes["changed_after_step"]) <= 3 and max(rates) <= 0.1

    return check


def flowed(outcome: Outcome) -> bool:
    """Check the rate of the traffic that is not ours, to a tenth."""
    match = re.search(r"exchange: (\d+) Mbit/s", outcome.finding("foreign_traffic"))
    steps = outcome.view.steps
    flow = [row for row in outcome.notes["flow"] if steps[0].time <= row[0] <= steps[-1].time]
    (began, first), (ended, last) = flow[0], flow[-1]
    true = 8e-6 * (last - first) / (ended - began)
    return match is not None and abs(int(match[1]) / true - 1) <= 0.1


def _said(outcome: Outcome) -> str:
    bottleneck = outcome.report.bottleneck
    found = ", ".join(outcome.findings)
    share = f"{bottleneck.cause} {100 * bottleneck.share:.0f} %"
    return f"{share}; {found}" if found else share
