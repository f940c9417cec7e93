"""What a person should know of a whole run besides its hours.

What a person should know of machines and network besides the figures.
"""

from statistics import median

from unisono.cost_model.memory import memory_of
from unisono.cost_model.probe_results import ProbeResults, computing_of
from unisono.cost_model.scenarios import Scenario
from unisono.cost_model.strategies import DEFAULT_STRATEGY, facts_of
from unisono.units import duration

MUCH = 0.05  # of the run


def notes_of_run(measured: ProbeResults, way: Scenario) -> list[str]:
    """Return what in the course of the run is not like its usual update, or not foretold."""
    job, course, notes = measured.job, way.course, []
    if measured.machines == 1 and len(measured.processes) > 1 and _is_inexact(job.strategy):
        notes.append(
            f'on one machine there is no network to spare: "{job.strategy}" was not judged, '
            f"the line is that of {DEFAULT_STRATEGY}"
        )
    if course.together:
        count = f"{job.warmup_steps:,} updates at the beginning"
        closing = job.closing_steps if way.exchange.local else 0
        count += f" and {closing:,} at the end" if closing else ""
        how = "exchanged exactly" if way.exchange.low_rank else "made together"
        share = course.together * course.together_seconds / course.seconds
        notes.append(
            f"{count} are {how} and take {duration(course.together_seconds)} each, "
            f"{share:.0%} of the run (`sync.warmup_steps`): hours, waiting and speed count them"
        )
    meeting = course.meetings * course.meeting_seconds
    if course.updates and meeting > MUCH * course.seconds:
        notes.append(
            f"machines come together {course.meetings:,} times, before evaluations and "
            f"checkpoints, for {duration(course.meeting_seconds)} each, "
            f"{meeting / course.seconds:.0%} of the run: raise `validation.every_steps` and "
            "`checkpoint.every_steps`"
        )
    return notes


def _is_inexact(strategy: str) -> bool:
    facts = facts_of(strategy)
    return facts is not None and not facts.exact


FADED = 0.8  # a stream whose rate ends below this share of its beginning has used up credit
FULL = 0.9  # of the memory
UNEVEN = 0.7  # a direction this much slower than the other is worth telling
DELIVERED = 0.6  # of what an interface is sold as: less is worth telling
SLOWER = 1.15  # a machine that takes this much longer than the fastest


def notes_of(measured: ProbeResults, strategy: str) -> list[str]:
    """Return what a person should know besides the figures, of a run with this `strategy`."""
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


def _about_promises(measured: ProbeResults) -> list[str]:
    """Return which interfaces never came near what they are sold as, in one line."""
    best: dict[int, tuple[float, int]] = {}
    first = [measured.processes[ranks[0]] for ranks in measured.members]
    for pair in measured.pairs:
        sold = {number: first[number].nominal_mbit for number in (pair.sender, pair.receiver)}
        least = min(sold.values())
        for number, mbit in sold.items():
            if 0 < mbit == least:  # the other is not what limits it
                seen = pair.rate * 8e-6 / mbit, mbit
                best[number] = max(best.get(number, seen), seen)
    short = [
        f"{measured.machine(number)} ({first[number].interface}) is sold as {sold:,} Mbit/s "
        f"and delivers {share * sold:,.0f}"
        for number, (share, sold) in best.items()
        if share < DELIVERED
    ]
    return [f"a network slower than its name: {'; '.join(short)}"] if short else []


def _about_speed(measured: ProbeResults) -> list[str]:
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


def _about_memory(measured: ProbeResults, strategy: str) -> list[str]:
    """Return which machines have too little memory, each once."""
    notes = []
    for number, ranks in enumerate(measured.members):
        memory = memory_of(measured, ranks, strategy)
        full = "too small" if memory.share > 1 else "nearly full"
        if memory.share > FULL:
            notes.append(
                f"the memory of {measured.machine(number)} is {full}: {memory.share:.0%}, what "
                "the exchange keeps included; lower `batching.tokens_per_micro_batch`"
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
        notes.append("the data are prepared more slowly than they are learnt from")
    return notes


def _about_gaps(measured: ProbeResults) -> list[str]:
    """Return what the forecast does not know, since there was no time for it."""
    if not measured.unmeasured:
        return []
    return [
        f"no time was left to measure {', '.join(measured.unmeasured)}: that counts as "
        "nothing; `--seconds` gives more"
    ]
