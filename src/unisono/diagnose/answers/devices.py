"""Were the devices doing arithmetic, or waiting?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from unisono.diagnose.case import Case
from unisono.diagnose.evidence import step_arithmetic
from unisono.diagnose.evidence.machine_load import GpuUse, Load
from unisono.diagnose.report import Answer, reply
from unisono.diagnose.wording import count, listing, percent, rounded

CLEARLY_WAITING = 0.25
WAITS = ("data", "network", "straggler", "checkpoint")
WORTH_NAMING_EVALUATION = 0.05  # of the time
# A device is not proved busy by a GPU that draws less than this share of its power limit, by a
# core that computes for less of the time, or by arithmetic at less of the data sheet's rate.
BUSY_POWER, BUSY_CORES, BUSY_ARITHMETIC = 0.5, 0.75, 0.15
IDLE_POWER = 0.3  # below this a GPU waits; up to BUSY_POWER a small model may keep it busy
FEWEST_UPDATES = 5
NO_POWER = "nothing sampled the utilisation and power of the devices"


@dataclass(frozen=True)
class Proof:
    """What measurements say of the devices; `busy` is None if they prove neither."""

    busy: bool | None
    words: str


def answer_devices(case: Case) -> Answer:
    """Split computing from waiting by the ledger; call no device busy without proof."""
    if len(case.ledger.rows) < FEWEST_UPDATES:
        return reply(
            "devices",
            "unknown",
            f"The run recorded too few updates to tell ({len(case.ledger.rows)}), and "
            f"{NO_POWER}.",
            values={"devices": _devices(case)},
        )
    shares, loads = case.bottleneck.shares, case.loads
    waiting = sum(getattr(shares, name) for name in WAITS)
    proof = _proof(case, loads)
    verdict = _verdict(waiting, proof)
    gpus = [gpu for load in loads for gpu in load.gpus]
    cores = [load.own_share for load in loads if load.threads]
    return reply(
        "devices",
        verdict,
        _summary(case, waiting, proof),
        values={
            "devices": _devices(case),
            "compute_share": shares.compute,
            "waiting_share": rounded(waiting),
            "utilisation": rounded(_mean([gpu.utilisation for gpu in gpus])),
            "power_watts": rounded(_mean([gpu.watts for gpu in gpus]), 1),
            "power_limit_watts": rounded(_mean([gpu.limit_watts for gpu in gpus]), 1),
            "cpu_share": rounded(fmean(cores)) if cores else None,
            "flops_per_second_and_process": rounded(_flops(case), 0),
        },
        evidence=_evidence(case, loads),
        advice=_advice(case, waiting) if verdict == "waiting" else "",
    )


def _verdict(waiting: float, proof: Proof) -> str:
    if waiting > CLEARLY_WAITING or proof.busy is False:
        return "waiting"
    return "busy" if proof.busy else "unknown"


def _proof(case: Case, loads: Sequence[Load]) -> Proof:
    gpus = [gpu for load in loads for gpu in load.gpus]
    watts, limit = _mean([g.watts for g in gpus]), _mean([g.limit_watts for g in gpus])
    if watts is not None and limit:
        between = IDLE_POWER < watts / limit < BUSY_POWER
        busy = None if between else watts >= BUSY_POWER * limit
        return Proof(busy, f"the GPUs drew {watts:.0f} W of {limit:.0f} W")
    rate, device = _flops(case), step_arithmetic.known_device(case.run)
    if rate is not None and device is not None:
        share = rate / device.peak(step_arithmetic.precision_of(case.run))
        words = f"{rate / 1e12:.1f} TFLOP/s are {percent(share)} of what a {device.name} can do"
        return Proof(True if share >= BUSY_ARITHMETIC else None, words)
    cores = [load for load in loads if load.threads]
    if cores and not gpus:
        share = fmean(load.own_share for load in cores)
        words = f"the run's threads used {percent(share)} of the cores they could use"
        return Proof(share >= BUSY_CORES, words)
    return Proof(None, NO_POWER)


def _flops(case: Case) -> float | None:
    return step_arithmetic.flops_per_second(case.run, case.ledger, case.size)


def _devices(case: Case) -> dict[str, int]:
    return dict(Counter(start.device.split(":")[0] for start in case.run.last_starts))


def _names(case: Case) -> str:
    devices = [
        count(number, f"{name} process", f"{name} processes")
        for name, number in _devices(case).items()
    ]
    return listing(devices) if devices else "The processes"


def _summary(case: Case, waiting: float, proof: Proof) -> str:
    shares = case.bottleneck.shares
    if waiting > CLEARLY_WAITING:
        seen = f"; {proof.words}" if proof.words != NO_POWER else ""
        return (
            f"No: {_names(case)} waited for {percent(waiting)} of the time and computed for "
            f"{percent(shares.compute)}{seen}."
        )
    scored = shares.evaluation >= WORTH_NAMING_EVALUATION
    further = f", {percent(shares.evaluation)} on validation," if scored else ""
    spent = (
        f"{_names(case)} spent {percent(shares.compute)} of the time on forward, backward and "
        f"optimizer{further} and waited for {percent(waiting)}"
    )
    if proof.busy is None:
        return f"{spent}. Whether that used them fully is unknown: {proof.words}."
    return f"{'Yes' if proof.busy else 'No'}: {spent}; {proof.words}."


def _evidence(case: Case, loads: Sequence[Load]) -> list[str]:
    shares = case.bottleneck.shares
    lines = [
        f"wall clock: waiting for data {percent(shares.data)}, exchange "
        f"{percent(shares.network)}, waiting for a straggler {percent(shares.straggler)}, "
        f"evaluation {percent(shares.evaluation)}, checkpoints {percent(shares.checkpoint)}, "
        f"other {percent(shares.other)}"
    ]
    rate = _flops(case)
    if rate is not None:
        lines.append(
            f"matrix products of the model: {rate / 1e9:,.1f} GFLOP/s for each process, "
            "averaged over whole updates"
        )
    threads = {start.threads for start in case.run.last_starts if start.device == "cpu"}
    if threads:
        lines.append(
            f"compute threads in each process: {listing([str(n) for n in sorted(threads)])}"
        )
    for load in loads:
        lines.append(
            f"{load.host}: of {count(load.cores, 'core')}, the run used {load.own:.2f} and "
            f"other programs used {load.foreign:.2f}"
        )
        lines += [_gpu_line(gpu) for gpu in load.gpus]
    if any(start.device.startswith("cuda") for start in case.run.last_starts):
        lines.append(
            "a utilisation of 100 % proves nothing: a GPU that waits for others shows 100 % too"
        )
    return lines


def _gpu_line(gpu: GpuUse) -> str:
    parts = [
        f"{gpu.watts:.0f} W of {gpu.limit_watts:.0f} W"
        if gpu.watts and gpu.limit_watts
        else "",
        f"utilisation {percent(gpu.utilisation)}" if gpu.utilisation is not None else "",
        _memory(gpu),
        f"clock {gpu.mhz:.0f} of {gpu.most_mhz:.0f} MHz" if gpu.mhz and gpu.most_mhz else "",
        *(
            f"throttled by {name} for {percent(part)} of the time"
            for name, part in gpu.throttled.items()
        ),
        f"shared with {count(gpu.others, 'other process', 'other processes')}"
        if gpu.others
        else "",
    ]
    return f"{gpu.host}: GPU {gpu.index}: {', '.join(part for part in parts if part)}"


def _memory(gpu: GpuUse) -> str:
    if gpu.memory_share is None:
        return ""
    own = gpu.own_memory_share
    return f"memory {percent(gpu.memory_share)}" + (
        f" (this run {percent(own)})" if own is not None else ""
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _advice(case: Case, waiting: float) -> str:
    if waiting <= CLEARLY_WAITING:
        look = "see what else runs on the machines."
        if case.memory_is_full:
            return look.capitalize()
        return f"Use larger micro-batches (`batching.tokens_per_micro_batch`), and {look}"
    waits = {name: getattr(case.bottleneck.shares, name) for name in WAITS}
    return {
        "data": "Put the corpus on a faster disk, and leave a core to the process that reads.",
        "network": "Exchange less often (larger `batching.tokens_per_update`), between fewer "
        "processes, or over a faster link.",
        "straggler": "Find out what slows the straggler down; see the answer on step time.",
        "checkpoint": "Save less often (`checkpoint.every_steps`), or to a faster disk.",
    }[max(waits, key=lambda name: waits[name])]
