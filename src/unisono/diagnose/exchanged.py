"""What an update has to exchange, by arithmetic."""

from unisono.diagnose.case import Case
from unisono.physics.ring import ring_bytes
from unisono.units import amount_of_bytes


def expected_bytes(case: Case) -> int:
    """Return what each process sends, and receives, in one update by the ring formula.

    With the processes of a machine side by side in the ring, as many go through its card.
    """
    return ring_bytes(case.parameters, case.size)


def arithmetic(case: Case) -> str:
    """Write the ring formula with the numbers of this run."""
    ranks = case.size
    return (
        f"2 · ({ranks} − 1)/{ranks} · 4 bytes · {case.parameters:,} parameters = "
        f"{amount_of_bytes(expected_bytes(case))} an update, each way"
    )
