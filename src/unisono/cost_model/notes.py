"""What a person should know of a run besides its figures: links, speed, memory, gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unisono.cost_model.exchange import BYTES_PER_FLOAT32
from unisono.cost_model.probe_results import ProbeResults, Process, computing_of
from unisono.cost_model.scenarios import Scenario
from unisono.cost_model.strategies import DEFAULT_STRATEGY, STRATEGIES, facts_of
from unisono.units import duration


@dataclass(frozen=True)
class MemoryNeed:
    """The memory that a machine, or its fullest device, needs and has."""

    needed: int
    there: int

    @property
    def share(self) -> float:
        """Return how full it will be; more than 1 means that it does not fit."""
        return self.needed / max(1, self.there)


def exchange_memory(
    parameters: int, strategy: str, processes: int, *, momentum: bool = False
) -> int:
    """Return the bytes that each of several processes keeps for the exchange with the others.

    `strategy` is what `sync.strategy` calls it; `momentum` says whether the outer optimizer of
    local updates has one.
    """
    if processes == 1:
        return 0
    facts = STRATEGIES[strategy]
    numbers = facts.kept_numbers + (momentum and facts.keeps_momentum)
    return numbers * BYTES_PER_FLOAT32 * parameters


def memory_of(measured: ProbeResults, ranks: Sequence[int], strategy: str) -> MemoryNeed:
    """Return the memory of the machine with these `ranks`.

    Processes on CPUs share the memory of their machine; of GPUs, the fullest counts.
    """
    job, processes = measured.job, [measured.processes[rank] for rank in ranks]
    more = exchange_memory(
        job.parameters, strategy, len(measured.processes), momentum=job.outer_momentum
    )
    if all(process.device == "cpu" for process in processes):
        whole = sum(process.peak_bytes + more for process in processes)
        return MemoryNeed(whole, min(process.memory_bytes for process in processes))
    return max((_of_one(process, more) for process in processes), key=lambda one: one.share)


def _of_one(process: Process, more: int) -> MemoryNeed:
    return MemoryNeed(process.peak_bytes + more, process.memory_bytes)


MUCH_MEETING = 0.05  # of the run


def notes_of_run(measured: ProbeResults, way: Scenario) -> list[str]:
    """Return which parts of the run differ from its usual update, or are not forecast."""
    job, course, notes = measured.job, way.course, []
    if measured.machines == 1 and len(measured.processes) > 1 and _is_inexact(job.strategy):
        notes.append(
            f'on one machine "{job.strategy}" has no network to save: the forecast is that of '
            f"{DEFAULT_STRATEGY}"
        )
    if course.together:
        count = f"{job.warmup_steps:,} updates at the beginning"
        closing = job.closing_steps if way.exchange.local else 0
        count += f" and {closing:,} at the end" if closing else ""
        how = "exchanged exactly" if way.exchange.low_rank else "made together"
        share = course.together * course.together_seconds / course.seconds
        notes.append(
            f"{count} are {how} and take {duration(course.together_seconds)} each, {share:.0%} "
            "of the run (`sync.warmup_steps`); hours, waiting and speed include them"
        )
    meeting = course.meetings * course.meeting_seconds
    if course.updates and meeting > MUCH_MEETING * course.seconds:
        notes.append(
            f"machines exchange all weights {course.meetings:,} times, before evaluations and "
            f"checkpoints, which takes {duration(course.meeting_seconds)} each time, "
            f"{meeting / course.seconds:.0%} of the run: raise `validation.every_steps` and "
            "`checkpoint.every_steps`"
        )
    return notes


def _is_inexact(strategy: str) -> bool:
    facts = facts_of(strategy)
    return facts is not None and not facts.exact


FADED = 0.8  # a stream that ends below this share of its first rate has used up burst credit
FULL = 0.9  # of the memory
UNEVEN = 0.7  # a direction this much slower than the other is worth a note
DELIVERED = 0.6  # of the nominal rate of an interface: less is worth a note
SLOWER = 1.15  # a machine that takes this much longer than the fastest


def notes_of(measured: ProbeResults, strategy: str) -> list[str]:
    """Return the notes on machines and network for a run with this `strategy`."""
    return [
        *_about_links(measured),
        *_about_promises(measured),
        *_about_speed(measured),
        *_about_memory(measured, strategy),
        *_about_rest(measured),
        *_about_gaps(measured),
    ]


def _about_links(measured: ProbeResults) -> list[str]:
    notes = []
    rates = {(pair.sender, pair.receiver): pair.rate for pair in measured.pairs}
    for (sender, receiver), rate in rates.items():
        if rate < UNEVEN * rates.get((receiver, sender), rate):
            there, back = measured.machine(sender), measured.machine(receiver)
            ratio = rate / rates[receiver, sender]
            notes.append(
                f"{there} sends to {back} at {ratio:.0%} of the rate in the other direction"
            )
    third = len(measured.pulses) // 3
    if third:
        first, last = median(measured.pulses[:third]), median(measured.pulses[-third:])
        if last < FADED * first:
            notes.append(
                f"the network's rate fell from {first * 8e-6:,.0f} to {last * 8e-6:,.0f} "
                "Mbit/s within seconds: burst credit ran out; the lower rate will last"
            )
    return notes


def _about_promises(measured: ProbeResults) -> list[str]:
    """Return which interfaces never came near their nominal rate, in one line."""
    best: dict[int, tuple[float, int]] = {}
    first = [measured.processes[ranks[0]] for ranks in measured.members]
    for pair in measured.pairs:
        sold = {number: first[number].nominal_mbit for number in (pair.sender, pair.receiver)}
        least = min(sold.values())
        for number, mbit in sold.items():
            if 0 < mbit == least:  # the other interface is not the limit
                seen = pair.rate * 8e-6 / mbit, mbit
                best[number] = max(best.get(number, seen), seen)
    short = [
        f"{measured.machine(number)} ({first[number].interface}) is nominally {sold:,} Mbit/s "
        f"and delivers {share * sold:,.0f}"
        for number, (share, sold) in best.items()
        if share < DELIVERED
    ]
    return [f"the network is slower than its nominal rate: {'; '.join(short)}"] if short else []


def _about_speed(measured: ProbeResults) -> list[str]:
    """Return which machines are slow, and which processes are slow on their machine."""
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


def _about_memory(measured: ProbeResults, strategy: str) -> list[str]:
    """Return which machines have too little memory, each once."""
    notes = []
    for number, ranks in enumerate(measured.members):
        memory = memory_of(measured, ranks, strategy)
        full = "too small" if memory.share > 1 else "nearly full"
        if memory.share > FULL:
            notes.append(
                f"the memory of {measured.machine(number)} is {full}: {memory.share:.0%}, "
                "including what the exchange keeps; lower `batching.tokens_per_micro_batch`"
            )
    return notes


def _about_rest(measured: ProbeResults) -> list[str]:
    notes = []
    if measured.checkpoint_bytes and any(
        p.rank == 0 and p.free_disk_bytes < 4 * measured.checkpoint_bytes
        for p in measured.processes
    ):
        notes.append("the disk of the run has no room for four checkpoints")
    work = median(computing_of(update) for p in measured.processes for update in p.updates)
    if measured.loader_seconds > work:
        notes.append("preparing the data takes longer than computing with them")
    return notes


def _about_gaps(measured: ProbeResults) -> list[str]:
    """Return what the forecast does not know because there was no time to measure it."""
    if not measured.unmeasured:
        return []
    return [
        f"there was no time to measure {', '.join(measured.unmeasured)}, which counts as "
        "nothing here; raise `--seconds`"
    ]
