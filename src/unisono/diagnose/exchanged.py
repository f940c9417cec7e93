"""What an update has to exchange, by arithmetic."""

from unisono.diagnose.case import Case
from unisono.physics.exchange import gathered, packed_bytes
from unisono.physics.machines import machines_of, parties
from unisono.physics.ring import ring_bytes
from unisono.units import amount_of_bytes

NOT_COMPUTED = ("powersgd",)  # what it sends follows from the shape of every matrix


def expected_bytes(case: Case) -> int:
    """Return what goes through each machine's card in one update, each way; 0 if unknown.

    With the processes of a machine side by side in the ring, it is what each of them sends.
    Packed numbers of a machine are sent by one of its processes.
    """
    if not case.run.last_starts:
        return ring_bytes(case.parameters, case.size)
    start = case.run.last_starts[0]
    if start.strategy in NOT_COMPUTED or case.size < 2:
        return 0
    if start.bits == 32:
        return ring_bytes(case.parameters, case.size)
    message = packed_bytes(case.parameters, start.bits)
    return round(gathered(message, _parties(case)) / start.every)


def _parties(case: Case) -> int:
    starts = sorted(case.run.last_starts, key=lambda start: start.rank)
    machines = machines_of(
        [start.host for start in starts], [start.local_rank for start in starts]
    )
    # Who left no record was there all the same.
    return case.size if len(machines) == 1 else parties(machines)


def arithmetic(case: Case) -> str:
    """Write the formula with the numbers of this run."""
    ranks, total = case.size, amount_of_bytes(expected_bytes(case))
    start = case.run.last_starts[0] if case.run.last_starts else None
    if start is not None and start.strategy in NOT_COMPUTED:
        return f"what {start.strategy} sends in an update is not computed here"
    if start is None or start.bits == 32:
        return (
            f"2 · ({ranks} − 1)/{ranks} · 4 bytes · {case.parameters:,} parameters = "
            f"{total} an update, each way"
        )
    every = f" / {start.every} updates" if start.every > 1 else ""
    return (
        f"({_parties(case)} − 1) · {start.bits} bits and a factor for 256 · "
        f"{case.parameters:,} parameters{every} = {total} an update, each way "
        f"({start.strategy})"
    )
