"""What a run is refused for before any of it begins, by `train` and by `check` alike."""

from pathlib import Path

from unisono.batching.stream import Stream
from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.comm.strategies.build import check_strategy
from unisono.config.sanity import check_warm_up
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.records.layout import RunDirectory
from unisono.train.build import compiling_of, precision_of, respelling_of, stream_of
from unisono.train.compiling import check_compiler
from unisono.train.precision import check_precision

BEGIN_LATE = ("powersgd", "diloco")  # after their warm-up: how long a run is must be known


def check_possible(comm: Comm, settings: Settings, corpus: Corpus) -> None:
    """Raise an error on all processes if one of them cannot do what the settings ask for."""
    continued = bool(settings.run) and RunDirectory(Path(settings.run)).config.is_file()
    all_or_none(
        comm, lambda: check_strategy(settings.sync, comm.world.size, continued=continued)
    )
    all_or_none(comm, lambda: check_precision(precision_of(settings, comm)))
    all_or_none(comm, lambda: check_compiler(compiling_of(settings), comm.world.device))
    all_or_none(comm, lambda: respelling_of(settings, corpus))
    if settings.train.max_epochs and settings.sync.strategy in BEGIN_LATE:
        all_or_none(comm, lambda: _check_epochs(settings, stream_of(settings, corpus, comm)))


def updates_of(settings: Settings, stream: Stream) -> int:
    """Return how many updates the run makes, or 0 if nothing limits them by number."""
    limits = settings.train
    epochs = limits.max_epochs * stream.updates_in(1) if limits.max_epochs else 0
    return min((count for count in (limits.max_steps, epochs) if count), default=0)


def _check_epochs(settings: Settings, stream: Stream) -> None:
    check_warm_up(settings, updates_of(settings, stream), where="[sync] warmup_steps")
