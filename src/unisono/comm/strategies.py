"""The strategies by name."""

from collections.abc import Callable

from unisono.comm.all_reduce import AllReduce
from unisono.comm.compressed import Compressed
from unisono.comm.ddp import Ddp
from unisono.comm.powersgd import PowerSgd
from unisono.comm.protocol import Strategy
from unisono.comm.settings import Sync

STRATEGIES: dict[str, type[Strategy]] = {
    "ddp": Ddp,
    "all_reduce": AllReduce,
    "compressed": Compressed,
    "powersgd": PowerSgd,
}

_MADE: dict[str, Callable[[Sync], Strategy]] = {
    "ddp": lambda sync: Ddp(bucket_mb=sync.bucket_mb),
    "all_reduce": lambda sync: AllReduce(),
    "compressed": lambda sync: Compressed(bits=sync.bits, bucket_mb=sync.bucket_mb),
    "powersgd": lambda sync: PowerSgd(sync.low_rank, sync.warmup_steps, sync.bucket_mb),
}


def strategy_of(sync: Sync) -> Strategy:
    """Return the strategy that the settings ask for."""
    return _MADE[sync.strategy](sync)
