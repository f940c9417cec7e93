"""The strategies by name."""

from unisono.comm.all_reduce import AllReduce
from unisono.comm.compressed import Compressed
from unisono.comm.ddp import Ddp
from unisono.comm.diloco import Diloco
from unisono.comm.powersgd import PowerSgd
from unisono.comm.protocol import Strategy
from unisono.comm.settings import Sync
from unisono.units import seconds_of

STRATEGIES: dict[str, type[Strategy]] = {
    "ddp": Ddp,
    "all_reduce": AllReduce,
    "compressed": Compressed,
    "powersgd": PowerSgd,
    "diloco": Diloco,
}


def strategy_of(sync: Sync, max_steps: int = 0) -> Strategy:
    """Return the strategy that the settings ask for, in a run of `max_steps` (0 is no limit)."""
    made: dict[str, Strategy] = {
        "ddp": Ddp(sync.bucket_mb),
        "all_reduce": AllReduce(),
        "compressed": Compressed(sync.bits, sync.bucket_mb),
        "powersgd": PowerSgd(sync.low_rank, sync.warmup_steps, sync.bucket_mb),
        "diloco": Diloco(
            local_steps=sync.local_steps,
            warmup_steps=sync.warmup_steps,
            last_local_step=max(0, max_steps - sync.closing_steps),
            outer_rate=sync.outer_rate,
            outer_momentum=sync.outer_momentum,
            bits=sync.bits,
            bucket_mb=sync.bucket_mb,
            timeout_seconds=seconds_of(sync.timeout),
        ),
    }
    return made[sync.strategy]
