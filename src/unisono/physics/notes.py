"""What a person should know of machines and network besides the figures."""

from statistics import median

from unisono.physics.measured import Measured, computing_of

FADED = 0.8  # a stream whose rate ends below this share of its beginning has used up credit
FULL = 0.9  # of the memory
UNEVEN = 0.7  # a direction this much slower than the other is worth telling
SLOWER = 1.15  # a machine that takes this much longer than the fastest


def notes_of(measured: Measured) -> list[str]:
    """Return what a person should know besides the figures."""
    return [*_about_links(measured), *_about_speed(measured), *_about_machines(measured)]


def _about_links(measured: Measured) -> list[str]:
    notes = []
    rates = {(pair.sender, pair.receiver): pair.rate for pair in measured.pairs}
    for (sender, receiver), rate in rates.items():
        if rate < UNEVEN * rates.get((receiver, sender), rate):
            there, back = measured.machine(sender), measured.machine(receiver)
            ratio = rate / rates[receiver, sender]
            notes.append(f"{there} sends to {back} at {ratio:.0%} of the rate back")
    third = len(measured.pulses) // 3
    if third:
        first, last = median(measured.pulses[:third]), median(measured.pulses[-third:])
        if last < FADED * first:
            notes.append(
                f"the network's rate fell from {first * 8e-6:,.0f} to {last * 8e-6:,.0f} "
                "Mbit/s within seconds: burst credit; the lower rate is what lasts"
            )
    return notes


def _about_speed(measured: Measured) -> list[str]:
    """Return which machines take long for their share, and which processes on a machine."""
    times = [median(computing_of(u) for u in p.updates) for p in measured.processes]
    members = measured.members
    # A machine is ready when the last of its processes is.
    each = [max(times[rank] for rank in ranks) for ranks in members]
    best = min(range(len(each)), key=lambda number: each[number])
    notes = [
        f"machines are not equally fast: {measured.machine(number)} takes "
        f"{seconds / each[best]:.2f} times as long for its share as {measured.machine(best)}, "
        "and all wait for it in every update"
        for number, seconds in enumerate(each)
        if seconds > SLOWER * each[best]
    ]
    for number, ranks in enumerate(members):
        fastest = min(times[rank] for rank in ranks)
        notes += [
            f"rank {rank} takes {times[rank] / fastest:.2f} times as long as the fastest "
            f"process of {measured.machine(number)}"
            for rank in ranks
            if times[rank] > SLOWER * fastest
        ]
    return notes


def _about_machines(measured: Measured) -> list[str]:
    notes = []
    for process in measured.processes:
        shared = measured.workers if process.device == "cpu" else 1
        used = process.peak_bytes * shared / process.memory_bytes
        if used > FULL:
            notes.append(
                f"the memory of {process.host} is nearly full: {used:.0%}; lower "
                "`batching.tokens_per_micro_batch`"
            )
    if measured.checkpoint_bytes and any(
        p.rank == 0 and p.free_disk_bytes < 4 * measured.checkpoint_bytes
        for p in measured.processes
    ):
        notes.append("the disk of the run has no room for four checkpoints")
    work = median(computing_of(update) for p in measured.processes for update in p.updates)
    if measured.loader_seconds > work:
        notes.append("the data are prepared more slowly than they are learnt from")
    return notes
