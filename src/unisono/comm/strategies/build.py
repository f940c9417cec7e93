"""The strategies by name."""

from unisono.comm.protocol import Strategy
from unisono.comm.settings import Sync
from unisono.comm.strategies.all_reduce import AllReduce
from unisono.comm.strategies.compressed import Compressed
from unisono.comm.strategies.ddp import Ddp
from unisono.comm.strategies.diloco import Diloco, check_company
from unisono.comm.strategies.powersgd import PowerSgd
from unisono.cost_model.step import USUAL_BUCKET_MB
from unisono.units import seconds_of

STRATEGIES: dict[str, type[Strategy]] = {
    "ddp": Ddp,
    "all_reduce": AllReduce,
    "compressed": Compressed,
    "powersgd": PowerSgd,
    "diloco": Diloco,
}


def strategy_of(sync: Sync, max_steps: int = 0, *, adaptive: bool = True) -> Strategy:
    """Return the strategy that the settings ask for; with 0 `max_steps` the end is open.

    An optimizer is `adaptive` if it divides gradients by how much they vary.
    """
    bucket_mb, timeout = sync.bucket_mb or USUAL_BUCKET_MB, seconds_of(sync.timeout)
    made: dict[str, Strategy] = {
        "ddp": Ddp(bucket_mb),
        "all_reduce": AllReduce(),
        "compressed": Compressed(sync.bits, bucket_mb, timeout),
        "powersgd": PowerSgd(sync.low_rank, sync.warmup_steps, bucket_mb),
        "diloco": Diloco(
            local_steps=sync.local_steps,
            warmup_steps=sync.warmup_steps,
            last_local_step=max(0, max_steps - sync.closing_steps),
            local_rate=sync.local_rate if adaptive else sync.local_rate or 1.0,
            outer_rate=sync.outer_rate,
            outer_momentum=sync.outer_momentum,
            bits=sync.bits,
            bucket_mb=bucket_mb,
            timeout_seconds=timeout,
        ),
    }
    return made[sync.strategy]


def check_strategy(sync: Sync, size: int, *, continued: bool = False) -> None:
    """Raise a ConfigError if the strategy cannot work with `size` processes.

    A run that is continued goes on with one, whatever it was started for.
    """
    if sync.strategy == "diloco" and not continued:
        check_company(size)


def idle_strategy(sync: Sync, size: int, local_size: int = 1) -> str:
    """Return in words that the strategy spares nothing on `size` processes, or "".

    `local_size` of them are on this machine.
    """
    if STRATEGIES[sync.strategy].exact:
        return ""
    if size == 1:
        return f'with one process nothing is exchanged: strategy "{sync.strategy}" is a no-op'
    if local_size == size:
        return (
            f'all processes are on one machine: strategy "{sync.strategy}" has no network to '
            'spare; "ddp" is exact'
        )
    return ""
