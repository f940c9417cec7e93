"""What probes might have found."""

import msgspec

from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import ProbeResults, Process, Sum, TrainingJob, Update

MB = 1_000_000
JOB = TrainingJob(
    parameters=10 * MB,
    tokens_per_update=4096,
    sentences_per_update=150,
    updates=3600,
    evaluation_every=900,
    checkpoint_every=1800,
    strategy="ddp",
    low_rank_numbers=MB // 10,
)


def process(rank, *, seconds=0.4, rate=100 * MB, rounds=5, busy=0.0, **changes):
    """A process whose updates take `seconds`, and whose sums of 4 MB run at `rate`."""
    update = Update(forward=seconds / 4, backward=seconds / 2, optimizer=seconds / 4)
    summed = Sum(4 * MB, ring_bytes(MB, 2) / rate, busy)
    known = {
        "rank": rank,
        "local_rank": 0,
        "host": f"node{rank}",
        "device": "cuda",
        "threads": 1,
        "cores": 1,
        "memory_bytes": 10**10,
        "peak_bytes": 10**9,
        "free_disk_bytes": 10**12,
        "updates": (update,) * rounds,
        "sums": (summed,) * rounds,
    }
    return Process(**{**known, **changes})


def two(**changes):
    return ProbeResults(job=JOB, processes=(process(0, **changes), process(1, **changes)))


def configured(strategy, bits=8, **changes):
    job = msgspec.structs.replace(JOB, strategy=strategy, bits=bits)
    return forecast(msgspec.structs.replace(two(**changes), job=job))
