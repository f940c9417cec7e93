"""Workers as in `worker`, that search with CTranslate2."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unisono.export.export_files import open_export
from unisono.serve.worker import WorkerOrder, run_workers
from unisono.translate.translator import Translator


def load_exports(paths: Sequence[str]) -> list[Translator]:
    """Open each export, for one thread."""
    return [open_export(Path(path), 1) for path in paths]


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=WorkerOrder)
    # CTranslate2 has threads of its own, which a fork would lose.
    run_workers(given, load_exports, load_before_fork=False)
