"""Were the devices doing arithmetic, or waiting?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from unisono.diagnose.case import Case
from unisono.diagnose.evidence.flops import flops_per_second, known_device
from unisono.diagnose.evidence.machine_load import GpuUse, Load
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.wording import count, listing, percent, rounded

CLEARLY_WAITING = 0.25
WAITS = ("data", "network", "straggler", "checkpoint")
WORTH_TELLING = 0.05  # of the time
# A GPU that draws less than this share of its limit, a core that computes for less of the
# time, and arithmetic at less of a data sheet's rate do not prove that a device is busy.
BUSY_POWER, BUSY_CORES, BUSY_ARITHMETIC = 0.5, 0.75, 0.15
IDLE_POWER = 0.3  # up to here a GPU waits, whatever it says; above, a small model may do so
FEWEST = 5
NOT_SAMPLED = "utilisation and power of the devices were not sampled"


@dataclass(frozen=True)
class Proof:
    """What was measured of the devices; `busy` is None if it proves neither."""

    busy: bool | None
    words: str


def answer_devices(case: Case) -> Answer:
    """Tell computing from waiting by the ledger; never call a device busy without power."""
    if len(case.ledger.rows) < FEWEST:
        return reply(
            "devices",
            "unknown",
            f"Too few updates were recorded to tell ({len(case.ledger.rows)}), and "
            f"{NOT_SAMPLED}.",
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
            "flops_per_second_and_process": rounded(flops_per_second(case), 0),
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
    rate, device = flops_per_second(case), known_device(case)
    if rate is not None and device is not None:
        share = rate / device.peak(_precision(case))
        words = f"{rate / 1e12:.1f} TFLOP/s are {percent(share)} of what a {device.name} can do"
        return Proof(True if share >= BUSY_ARITHMETIC else None, words)
    cores = [load for load in loads if load.threads]
    if cores and not gpus:
        share = fmean(load.own_share for load in cores)
        words = f"the run's threads had {percent(share)} of the cores they could use"
        return Proof(share >= BUSY_CORES, words)
    return Proof(None, NOT_SAMPLED)


def _precision(case: Case) -> str:
    train = case.run.config.get("train")
    told = train.get("precision") if isinstance(train, dict) else None
    return told if isinstance(told, str) else "fp32"


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
        seen = f"; {proof.words}" if proof.words != NOT_SAMPLED else ""
        return (
            f"No: {_names(case)} waited for {percent(waiting)} of the time and computed for "
            f"{percent(shares.compute)}{seen}."
        )
    scored = shares.evaluation >= WORTH_TELLING
    further = f", {percent(shares.evaluation)} in validations," if scored else ""
    spent = (
        f"{_names(case)} spent {percent(shares.compute)} of the time in forward, backward and "
        f"optimizer{further} and waited for {percent(waiting)}"
    )
    if proof.busy is None:
        return f"{spent}. Whether they were fully used meanwhile is not known: {proof.words}."
    return f"{'Yes' if proof.busy else 'No'}: {spent}; {proof.words}."


def _evidence(case: Case, loads: Sequence[Load]) -> list[str]:
    shares = case.bottleneck.shares
    lines = [
        f"of the wall clock: waiting for data {percent(shares.data)}, exchange "
        f"{percent(shares.network)}, waiting for a late process {percent(shares.straggler)}, "
        f"evaluation {percent(shares.evaluation)}, checkpoints {percent(shares.checkpoint)}, "
        f"other {percent(shares.other)}"
    ]
    rate = flops_per_second(case)
    if rate is not None:
        lines.append(
            f"matrix products of the model: {rate / 1e9:,.1f} GFLOP/s for each process, over "
            "whole updates"
        )
    threads = {start.threads for start in case.run.last_starts if start.device == "cpu"}
    if threads:
        lines.append(f"threads for arithmetic in each process: {listing(_sorted(threads))}")
    for load in loads:
        lines.append(
            f"{load.host}: of {count(load.cores, 'core')}, the run used {load.own:.2f} and "
            f"other programs {load.foreign:.2f}"
        )
        lines += [_gpu_line(gpu) for gpu in load.gpus]
    if any(start.device.startswith("cuda") for start in case.run.last_starts):
        lines.append("a utilisation of 100 % would prove nothing: a GPU that waits reads 100 %")
    return lines


def _gpu_line(gpu: GpuUse) -> str:
    parts = [
        f"{gpu.watts:.0f} W of {gpu.limit_watts:.0f} W"
        if gpu.watts and gpu.limit_watts
        else "",
        f"utilisation {percent(gpu.utilisation)}" if gpu.utilisation is not None else "",
        _memory(gpu),
        f"clock {gpu.mhz:.0f} of {gpu.most_mhz:.0f} MHz" if gpu.mhz and gpu.most_mhz else "",
        *(f"held back by {name} {percent(part)}" for name, part in gpu.throttled.items()),
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


def _sorted(threads: set[int]) -> list[str]:
    return [str(number) for number in sorted(threads)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _advice(case: Case, waiting: float) -> str:
    if waiting <= CLEARLY_WAITING:
        return (
            "Give the devices more at once (`batching.tokens_per_micro_batch`), and see what "
            "else runs on the machines."
        )
    waits = {name: getattr(case.bottleneck.shares, name) for name in WAITS}
    return {
        "data": "Speed up reading: a faster disk, or more time for the process that reads.",
        "network": "Exchange less often (larger `batching.tokens_per_update`), or between "
        "fewer processes; between machines, over a faster link.",
        "straggler": "Find out what holds the late process up; see the answer on step time.",
        "checkpoint": "Save less often (`checkpoint.every_steps`), or to a faster disk.",
    }[max(waits, key=lambda name: waits[name])]
