"""Workers as in `worker`, that search with CTranslate2."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unisono.export.export_files import open_export
from unisono.serve.worker import WorkerOrder, run_workers
from unisono.translate.translator import Translation, Translator


def load_exports(paths: Sequence[str]) -> list[Translator]:
    """Open each export, for one thread."""
    return [open_export(Path(path), 1) for path in paths]


class WholeBatches:
    """Lines that another engine translates in one go, all that wait."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._waiting: list[tuple[int, str]] = []

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def tickets(self) -> list[int]:
        return [ticket for ticket, _ in self._waiting]

    def add(self, tickets: Sequence[int], lines: Sequence[str]) -> None:
        self._waiting += zip(tickets, lines, strict=True)

    def step(self) -> list[tuple[int, Translation]]:
        found = self._translator.translations([line for _, line in self._waiting])
        done = list(zip(self.tickets, found, strict=True))
        self._waiting = []
        return done


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=WorkerOrder)
    # CTranslate2 has threads of its own, which a fork would lose.
    run_workers(given, load_exports, WholeBatches, load_before_fork=False)
