"""The strategies by name."""

from unisono.comm.all_reduce import AllReduce
from unisono.comm.compressed import Compressed
from unisono.comm.ddp import Ddp
from unisono.comm.diloco import Diloco, check_company
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
    """Return the strategy that the settings ask for; with 0 `max_steps` the end is open."""
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


def check_strategy(sync: Sync, size: int) -> None:
    """Raise a ConfigError if the strategy cannot work with `size` processes."""
    if sync.strategy == "diloco":
        check_company(size)


def idle_strategy(sync: Sync, size: int) -> str:
    """Return in words that the strategy changes nothing on `size` processes, or ""."""
    if size > 1 or STRATEGIES[sync.strategy].exact:
        return ""
    return f'with one process nothing is exchanged: strategy "{sync.strategy}" is a no-op'
