"""The strategies by name."""

from unisono.comm.all_reduce import AllReduce
from unisono.comm.ddp import Ddp
from unisono.comm.protocol import Strategy
from unisono.comm.settings import Sync

STRATEGIES: dict[str, type[Strategy]] = {"ddp": Ddp, "all_reduce": AllReduce}


def strategy_of(sync: Sync) -> Strategy:
    """Return the strategy that the settings ask for."""
    return Ddp(bucket_mb=sync.bucket_mb) if sync.strategy == "ddp" else AllReduce()
