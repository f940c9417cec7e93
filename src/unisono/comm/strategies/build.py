"""From the settings to the strategy that they name."""

import importlib
from typing import Any

from unisono.comm.protocol import Strategy
from unisono.comm.settings import Sync
from unisono.comm.strategies.strategy_state import alone_error
from unisono.cost_model.strategies import DEFAULT_STRATEGY, STRATEGIES


def implementation_of(name: str) -> Any:
    """Return the class of the strategy that the table has under this name."""
    module, _, kind = STRATEGIES[name].implementation.partition(":")
    return getattr(importlib.import_module(module), kind)


def strategy_of(sync: Sync, max_steps: int = 0, *, adaptive: bool = True) -> Strategy:
    """Return the strategy that the settings ask for; with 0 `max_steps` the end is open.

    An optimizer is `adaptive` if it divides gradients by how much they vary.
    """
    kind = implementation_of(sync.strategy)
    made: Strategy = kind.from_settings(sync, max_steps, adaptive=adaptive)
    return made


def check_strategy(sync: Sync, size: int, *, continued: bool = False) -> None:
    """Raise a ConfigError if the strategy cannot work with `size` processes.

    A continued run may go on with one process, whatever it was started with.
    """
    if size == 1 and not continued and STRATEGIES[sync.strategy].local:
        raise alone_error(sync.strategy)


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
            f'spare; "{DEFAULT_STRATEGY}" is exact'
        )
    return ""
