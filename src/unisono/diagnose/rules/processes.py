"""Processes that come late, drift apart, get lost, or leave no records; and warnings."""

from dataclasses import dataclass
from statistics import fmean

from unisono.diagnose.answers.step_time import lateness
from unisono.diagnose.case import Case
from unisono.diagnose.evidence.machine_load import GpuUse, Load, index_of
from unisono.diagnose.evidence.straggler import Lateness, lateness_of
from unisono.diagnose.report import MOST_STEPS, Finding, finding
from unisono.diagnose.wording import count, listing, percent
from unisono.records.events import WEIGHTS_DIFFER
from unisono.units import duration

# A clock below this share of its maximum is more than load explains; often is of the time.
LOW_CLOCK, OFTEN = 0.9, 0.1
WHY = {
    "input": "its data came late",
    "tokens": "its share of every update is larger",
    "compute": "it computes more slowly",
    "recording": "it records and shows the updates",
}
WHY_ALL = {
    "input": "their data came late",
    "tokens": "their share of every update is larger",
    "compute": "they compute more slowly",
    "recording": "they record and show the updates",
}
ADVICE_ON_LATENESS = {
    "input": "Put its corpus on a local disk, and see what else runs on its machine.",
    "tokens": "Nothing is wrong with its machine. Give every process equally many "
    "micro-batches of about the same size (`batching.tokens_per_micro_batch`).",
    "compute": "Check what else runs on its machine, its clock and temperature, and the limits "
    "of its container.",
    "recording": "Put the run directory on a faster disk.",
}


@dataclass(frozen=True)
class Straggler:
    """The processes waited for one straggler, or for the processes of one machine."""

    share: float = 0.10
    fewest: int = 20

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        share, late = case.bottleneck.shares.straggler, lateness_of(case.ledger)
        if share <= self.share or len(case.ledger.rows) < self.fewest or late is None:
            return ()
        return finding(
            "straggler",
            f"The processes spent {percent(share)} of their time waiting for "
            f"{late.who.words}: {(WHY_ALL if late.who.host else WHY)[late.kind]}.",
            *_evidence(case, late),
            advice=ADVICE_ON_LATENESS[late.kind],
            about=late.who.name,
        )


def _evidence(case: Case, late: Lateness) -> list[str]:
    lines = lateness(case)
    waited = case.ledger.waited_for
    total = sum(waited.values())
    if total > 0:
        for_them = sum(waited.get(rank, 0.0) for rank in late.who.ranks)
        why = "they arrived last, in turns, and so waited least in the exchange"
        if not late.who.host:
            why = "it arrived last, and so waited least in the exchange"
        lines.append(
            f"{percent(for_them / total)} of all waiting was for {late.who.words}: {why}"
        )
    if late.kind == "tokens":
        lines.append(
            f"it computes {late.positions:.2f} times as many positions as the others, which "
            f"takes {duration(late.seconds)} longer"
        )
    return lines + _machine(case, late)


def _machine(case: Case, late: Lateness) -> list[str]:
    load = next((load for load in case.loads if load.host == late.host), None)
    if load is None or late.kind == "tokens":
        return []
    lines = []
    if load.foreign >= 0.2:
        lines.append(
            f"other programs on {load.host} used {load.foreign:.1f} of its {load.cores} cores"
        )
    if load.held_back >= 0.02:
        lines.append(f"a CPU quota stopped it for {load.held_back:.2f} s in every second")
    if load.steal >= 0.02:
        lines.append(f"other virtual machines took {percent(load.steal)} of its processor time")
    if load.disk is not None and late.kind in ("input", "recording"):
        if load.disk.is_noticeable:
            lines.append(load.disk.words(load.host))
        lines += load.disk.foreign_words(load.host)
    if late.kind == "compute":
        lines += [line for rank in late.who.ranks for line in _gpu(case, rank, load)]
    return lines


def _gpu(case: Case, rank: int, load: Load) -> list[str]:
    """Return what slows the GPU of a straggler down: its clock, and why that is low."""
    start = next(start for start in case.run.last_starts if start.rank == rank)
    gpu = next((gpu for gpu in load.gpus if gpu.index == index_of(start.device)), None)
    if gpu is None or not start.device.startswith("cuda"):
        return []
    lines = []
    if gpu.clock_share is not None and gpu.clock_share < LOW_CLOCK:
        lines.append(
            f"its GPU ran at {gpu.mhz:.0f} of {gpu.most_mhz:.0f} MHz{_others(case, gpu)}"
        )
    lines += [
        f"{reason} throttled its GPU for {percent(share)} of the time"
        for reason, share in gpu.throttled.items()
        if share >= OFTEN
    ]
    if gpu.others:
        lines.append(f"{count(gpu.others, 'other process', 'other processes')} used its GPU")
    return lines


def _others(case: Case, ours: GpuUse) -> str:
    """Return the clock of the GPUs of the other ranks."""
    gpus = [gpu for load in case.loads for gpu in load.gpus if gpu != ours]
    clocks = [gpu.mhz for gpu in gpus if gpu.mhz is not None]
    return f", the others at {fmean(clocks):.0f}" if clocks else ""


@dataclass(frozen=True)
class DriftedRanks:
    """A comparison found that the processes no longer have the same weights."""

    shown: int = 3

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        told = [event for event in case.run.warnings if WEIGHTS_DIFFER in event.message]
        if not told:
            return ()
        return finding(
            "drifted_ranks",
            f"The processes drifted apart: their weights differed "
            f"{count(len(told), 'time')}, first at step {told[0].step:,}.",
            *(event.message for event in told[: self.shown]),
            severity="error",
            advice="Do not trust the updates after that: they add up gradients of "
            "different models. Test the memory of the machine whose process differs, leave "
            "it out, and resume from a checkpoint before that step.",
            steps=[event.step for event in told[:MOST_STEPS]],
        )


ADVICE_ON_LOSS = {
    "process died": "Read the log of that process and of its machine's kernel: out of memory?",
    "process stopped": "Find out what sent it SIGSTOP, or whether a debugger held it.",
    "machine or link gone": "Check whether that machine is up, and its link and switch.",
    "too slow": "Read in `stacks/` where it stood, and raise its limit if that is normal.",
}


@dataclass(frozen=True)
class LostRanks:
    """Processes died, stopped, became unreachable or took too long."""

    shown: int = 5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        losses = case.run.losses
        if not losses:
            return ()
        more = len(losses) - self.shown
        lines = [
            f"about step {event.step:,}: {event.message}" for event in losses[-self.shown :]
        ]
        kinds = dict.fromkeys(event.how for event in losses)
        return finding(
            "lost_ranks",
            f"The run lost {count(len(losses), 'process', 'processes')}.",
            *lines,
            *([f"and {more} before that"] if more > 0 else []),
            advice=" ".join(ADVICE_ON_LOSS[how] for how in kinds if how in ADVICE_ON_LOSS),
            steps=dict.fromkeys(event.step for event in losses[-MOST_STEPS:]),
        )


@dataclass(frozen=True)
class MissingRanks:
    """Some processes of the last start left no record of their steps."""

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        missing = [rank for rank in range(case.size) if not case.run.ranks.get(rank)]
        if not case.run.steps or not missing:
            return ()
        names = listing([str(rank) for rank in missing])
        return finding(
            "missing_ranks",
            f"The records of {len(missing)} of {case.size} processes are missing.",
            f"the directory `events` has no steps of rank {names}",
            advice="Write the run directory to a shared disk, or copy the files "
            "`events/rank-*.jsonl` of all machines into one.",
        )


@dataclass(frozen=True)
class Warnings:
    """The run recorded warnings: problems that it survived."""

    shown: int = 5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        # The rule `drifted_ranks` reports weights that differ.
        warnings = [w for w in case.run.warnings if WEIGHTS_DIFFER not in w.message]
        if not warnings:
            return ()
        more = len(warnings) - self.shown
        lines = [f"step {event.step:,}: {event.message}" for event in warnings[: self.shown]]
        return finding(
            "warnings",
            f"The run recorded {count(len(warnings), 'warning')}.",
            *lines,
            *([f"and {more} more"] if more > 0 else []),
            steps=dict.fromkeys(event.step for event in warnings[:MOST_STEPS]),
        )


@dataclass(frozen=True)
class DamagedFiles:
    """Some files of the run are damaged, and the report goes on without them."""

    shown: int = 5

    def __call__(self, case: Case) -> tuple[Finding, ...]:
        damaged = case.run.damaged
        if not damaged:
            return ()
        more = len(damaged) - self.shown
        return (
            Finding(
                id="damaged_files",
                severity="warning",
                summary=f"{count(len(damaged), 'file')} of the run cannot be read in full.",
                evidence=(*damaged[: self.shown], *([f"and {more} more"] if more > 0 else [])),
                advice="Copy the run directory again if you have another copy of it.",
            ),
        )
