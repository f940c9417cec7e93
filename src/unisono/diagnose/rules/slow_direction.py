"""One direction between two machines is slower than the others, and all wait for it."""

from dataclasses import dataclass
from statistics import median

from unisono.diagnose.case import Case
from unisono.diagnose.exchanged import expected_bytes
from unisono.diagnose.link_use import is_shared
from unisono.diagnose.report import Finding
from unisono.diagnose.words import percent

MBIT = 8e-6


@dataclass(frozen=True)
class Direction:
    """What one machine sends to another."""

    sender: str
    receiver: str
    bytes_per_second: float


@dataclass(frozen=True)
class SlowDirection:
    """An exchange goes round, so it is as slow as its slowest direction.

    `saving` is the share of an update that would be saved if that were as fast as the others.
    """

    factor: float = 2.0
    saving: float = 0.10

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        directions = _directions(case)
        if len(directions) < 2 or case.ledger.mean_step <= 0:
            return ()
        slow = min(directions, key=lambda one: one.bytes_per_second)
        if is_shared(case, (slow.sender, slow.receiver)):
            return ()
        usual = median(one.bytes_per_second for one in directions if one is not slow)
        count = expected_bytes(case)
        seconds = count / slow.bytes_per_second - count / usual
        share = seconds / case.ledger.mean_step
        if usual < self.factor * slow.bytes_per_second or share < self.saving:
            return ()
        return (
            Finding(
                id="slow_direction",
                severity="warning",
                summary=f"From {slow.sender} to {slow.receiver} the link carries "
                f"{MBIT * slow.bytes_per_second:.0f} Mbit/s, elsewhere "
                f"{MBIT * usual:.0f} Mbit/s: the exchange goes at the pace of that direction.",
                evidence=(
                    *(
                        f"{one.sender} → {one.receiver}: {MBIT * one.bytes_per_second:.0f} "
                        "Mbit/s"
                        for one in directions
                    ),
                    f"at the pace of the others, an update would be about "
                    f"{percent(min(1.0, share))} shorter",
                ),
                advice=f"Look at the limits on what {slow.sender} may send and "
                f"{slow.receiver} receive: port, cable, switch, firewall, shaping.",
                about=f"from {slow.sender} to {slow.receiver}",
            ),
        )


def _directions(case: Case) -> list[Direction]:
    hosts = {start.address: start.host for start in case.run.last_starts if start.address}
    needed = expected_bytes(case)
    return [
        Direction(node.host, hosts[way.address], way.able)
        for node in case.nodes
        for way in node.ways
        # The small talk of processes goes other ways as well.
        if way.address in hosts and way.sent > 0.5 * needed * node.updates
    ]
