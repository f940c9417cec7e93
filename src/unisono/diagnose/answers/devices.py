"""Were the devices doing arithmetic, or waiting?"""

from collections import Counter

from unisono.diagnose.case import Case
from unisono.diagnose.questions import reply
from unisono.diagnose.report import Answer
from unisono.diagnose.words import count, listing, percent, rounded

CLEARLY_WAITING = 0.25
FEWEST = 5
NOT_SAMPLED = "utilisation and power of the devices were not sampled"


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
    shares = case.bottleneck.shares
    waiting = shares.data + shares.network + shares.straggler
    verdict = "waiting" if waiting > CLEARLY_WAITING else "unknown"
    return reply(
        "devices",
        verdict,
        _summary(case, waiting, verdict),
        values={
            "devices": _devices(case),
            "compute_share": shares.compute,
            "waiting_share": rounded(waiting),
            "utilisation": None,
            "power_watts": None,
        },
        evidence=_evidence(case),
        advice=_advice(case) if verdict == "waiting" else "",
    )


def _devices(case: Case) -> dict[str, int]:
    return dict(Counter(start.device.split(":")[0] for start in case.run.last_starts))


def _names(case: Case) -> str:
    devices = [
        count(number, f"{name} process", f"{name} processes")
        for name, number in _devices(case).items()
    ]
    return listing(devices) if devices else "The processes"


def _summary(case: Case, waiting: float, verdict: str) -> str:
    shares = case.bottleneck.shares
    if verdict == "waiting":
        return (
            f"No: {_names(case)} waited for {percent(waiting)} of the time and computed for "
            f"{percent(shares.compute)}."
        )
    return (
        f"{_names(case)} spent {percent(shares.compute)} of the time in forward, backward and "
        f"optimizer and waited for {percent(waiting)}. Whether they were fully used while "
        f"computing is not known: {NOT_SAMPLED}."
    )


def _evidence(case: Case) -> list[str]:
    shares = case.bottleneck.shares
    lines = [
        f"of the wall clock: waiting for data {percent(shares.data)}, exchange "
        f"{percent(shares.network)}, waiting for a late process {percent(shares.straggler)}, "
        f"evaluation {percent(shares.evaluation)}, checkpoints {percent(shares.checkpoint)}, "
        f"other {percent(shares.other)}"
    ]
    threads = {start.threads for start in case.run.last_starts if start.device == "cpu"}
    if threads:
        lines.append(f"threads for arithmetic in each process: {listing(_sorted(threads))}")
    if any(start.device.startswith("cuda") for start in case.run.last_starts):
        lines.append("a utilisation of 100 % would prove nothing: a GPU that waits reads 100 %")
    return lines


def _sorted(threads: set[int]) -> list[str]:
    return [str(number) for number in sorted(threads)]


def _advice(case: Case) -> str:
    waits = {
        name: getattr(case.bottleneck.shares, name) for name in ("data", "network", "straggler")
    }
    return {
        "data": "Speed up reading: a faster disk, or more time for the process that reads.",
        "network": "Exchange less often (larger `batching.tokens_per_update`), or between "
        "fewer processes; between machines, over a faster link.",
        "straggler": "Find out what holds the late process up; see the answer on step time.",
    }[max(waits, key=lambda name: waits[name])]
