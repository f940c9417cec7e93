"""A link that was fast at first and then was not: credits for bursts are used up."""

from dataclasses import dataclass
from statistics import quantiles

from unisono.diagnose.case import Case
from unisono.diagnose.changes import find_drop
from unisono.diagnose.counted import counter_of, during
from unisono.diagnose.link_use import is_shared
from unisono.diagnose.report import Finding
from unisono.diagnose.traffic import Node, Way
from unisono.records.sampled import Peer
from unisono.units import duration

MBIT = 8e-6


@dataclass(frozen=True)
class BurstCredits:
    """The rate of a link fell for good while as much had to be sent as before.

    Rates are bytes over the time in which there was something to send, so that an exchange
    that is merely asked for less often is not taken for a slower link.
    """

    factor: float = 1.5
    fewest: int = 8
    share: float = 0.05

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        if len(case.run.hosts) < 2 or case.bottleneck.shares.network < self.share:
            return ()
        found = (
            self._look(case, node) for node in case.nodes if not is_shared(case, (node.host,))
        )
        # All machines of a ring slow down with the slowest link: it is told once.
        return tuple(finding for finding in found if finding is not None)[:1]

    def _look(self, case: Case, node: Node) -> Finding | None:
        way = node.main_way
        rates = _rates(node, way) if way is not None else []
        change = find_drop([rate for _, rate in rates], factor=self.factor, fewest=self.fewest)
        if way is None or change is None:
            return None
        moment = rates[change.place][0]
        steps = case.run.ranks.get(node.rank, ())
        step = next((step.step for step in steps if step.time >= moment), steps[-1].step)
        before = [s.seconds for s in steps if s.time < moment]
        after = [s.seconds for s in steps if s.time >= moment]
        speeds = [MBIT * rate for _, rate in rates]
        fast, slow = _carried(speeds[: change.place]), _carried(speeds[change.place :])
        return Finding(
            id="burst_credits",
            severity="warning",
            summary=f"The link of {node.host} became slower at step {step:,}: {fast:.0f} "
            f"Mbit/s before, {slow:.0f} Mbit/s after, for the same bytes an update.",
            evidence=(
                f"rates to {way.address} while there was something to send, over "
                f"{len(rates):,} samples",
                f"an update took {duration(_mean(before))} before and "
                f"{duration(_mean(after))} after",
            ),
            advice="Rented machines often have credits for bursts and a lower rate for good. "
            f"Plan with {slow:.0f} Mbit/s, take a size with more network, or exchange less "
            "often (`batching.tokens_per_update`).",
            steps=(step,),
        )


def _rates(node: Node, way: Way) -> list[tuple[float, float]]:
    """Return when and at what rate something was sent, sample by sample."""
    inside = during(node.samples, node.stretches)
    sent = counter_of(inside, lambda s: s.peers.get(way.address, Peer()).busiest_sent)
    busy = counter_of(inside, lambda s: s.peers.get(way.address, Peer()).busy)
    if sent is None or busy is None:
        return []
    points = list(zip(sent.times, sent.values, busy.values, strict=True))
    return [
        (time, (bytes_now - bytes_then) / (busy_now - busy_then))
        for (_, bytes_then, busy_then), (time, bytes_now, busy_now) in zip(
            points, points[1:], strict=False
        )
        if busy_now - busy_then > 0 and bytes_now > bytes_then
    ]


def _carried(speeds: list[float]) -> float:
    """Return what the link carries: a sender that waits for a core shows less, never more."""
    return quantiles(speeds, n=4)[2]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
