"""What `train` and `check` verify before a run begins.

All processes need the same versions, settings and corpus, and each must be able to do what
the settings ask for. Uneven shares of an update are worth a warning.
"""

import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec
import torch

from unisono.batching.settings import Budget
from unisono.batching.stream import Stream
from unisono.comm.collectives import all_or_none, check_same
from unisono.comm.protocol import Comm
from unisono.comm.strategies.build import check_strategy
from unisono.config.load import to_toml
from unisono.config.sanity import check_warm_up
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.cost_model.strategies import warm_up_of
from unisono.records.layout import RunDirectory
from unisono.train.build import bpe_dropout_of, compiling_of, precision_of, stream_of
from unisono.train.compiling import check_compiler
from unisono.train.precision import AUTO_PRECISION, agreed_precision, check_precision
from unisono.train.run_lock import recorded_precision


def check_consistency(comm: Comm, settings: Settings, corpus: Corpus) -> None:
    """Raise an error if a process has other versions, settings or text than the leader."""
    facts = {
        "the version of unisono": version("unisono"),
        "the version of torch": str(torch.__version__),
        **{f"the setting {name}": value for name, value in _all_settings(settings)},
        "the corpus": corpus.fingerprint[:16],
    }
    check_same(comm, facts)


def _all_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield every setting with its value, as in the run's config.toml."""
    tables = tomllib.loads(to_toml(settings))
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", repr(inner)) for key, inner in value.items())
        else:
            yield name, repr(value)


def settle_precision(comm: Comm, settings: Settings) -> Settings:
    """Replace the precision "auto" by one; all processes call this together.

    The run's config.toml records it, so a continued run computes as it began.
    """
    if settings.train.precision != AUTO_PRECISION:
        return settings
    recorded = recorded_precision(settings) if comm.world.leads else ""
    kind = agreed_precision(comm, recorded, settings.model)
    train = msgspec.structs.replace(settings.train, precision=kind)
    return msgspec.structs.replace(settings, train=train)


def check_preconditions(comm: Comm, settings: Settings, corpus: Corpus) -> None:
    """Raise an error on all processes if one of them cannot do what the settings ask for."""
    continued = bool(settings.run) and RunDirectory(Path(settings.run)).config.is_file()
    all_or_none(
        comm, lambda: check_strategy(settings.sync, comm.world.size, continued=continued)
    )
    all_or_none(comm, lambda: check_precision(precision_of(settings, comm)))
    all_or_none(comm, lambda: check_compiler(compiling_of(settings), comm.world.device))
    all_or_none(comm, lambda: bpe_dropout_of(settings, corpus))
    # A warm-up must be shorter than the run: how long that is must be known.
    if settings.train.max_epochs and warm_up_of(settings.sync.strategy):
        all_or_none(comm, lambda: _check_epochs(settings, stream_of(settings, corpus, comm)))


def updates_of(settings: Settings, stream: Stream) -> int:
    """Return how many updates the run makes, or 0 if no setting limits their number."""
    limits = settings.train
    epochs = limits.max_epochs * stream.updates_in(1) if limits.max_epochs else 0
    return min((count for count in (limits.max_steps, epochs) if count), default=0)


def _check_epochs(settings: Settings, stream: Stream) -> None:
    check_warm_up(settings, updates_of(settings, stream), where="[sync] warmup_steps")


EVEN_ENOUGH = 0.8


def uneven_shares(budget: Budget, processes: int) -> str:
    """Return a warning if processes would often wait for others, or "".

    An update is as slow as the process with the most micro-batches.
    """
    number = budget.micro_batches_per_update
    most = -(-number // processes)
    if number >= EVEN_ENOUGH * most * processes:
        return ""
    idle = f", so {processes - number} have nothing to do" if number < processes else ""
    lower = budget.tokens_per_update // (processes * most)
    return (
        f"an update has {number} micro-batches for {processes} processes{idle}; the work would "
        f"be shared evenly with `batching.tokens_per_micro_batch = {lower}`"
    )
