"""What a run is refused for before any of it begins, by `train` and by `check` alike."""

from pathlib import Path

from unisono.comm.protocol import Comm
from unisono.comm.strategies import check_strategy
from unisono.comm.together import all_or_none
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus
from unisono.records.layout import RunDirectory
from unisono.train.build import compiling_of, precision_of, respelling_of
from unisono.train.compiling import check_compiler
from unisono.train.precision import check_precision


def check_possible(comm: Comm, settings: Settings, corpus: Corpus) -> None:
    """Raise an error on all processes if one of them cannot do what the settings ask for."""
    continued = bool(settings.run) and RunDirectory(Path(settings.run)).config.is_file()
    all_or_none(
        comm, lambda: check_strategy(settings.sync, comm.world.size, continued=continued)
    )
    all_or_none(comm, lambda: check_precision(precision_of(settings, comm)))
    all_or_none(comm, lambda: check_compiler(compiling_of(settings), comm.world.device))
    all_or_none(comm, lambda: respelling_of(settings, corpus))
