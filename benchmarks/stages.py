"""Prepare the corpus of a configuration and print the seconds of each stage as JSON."""

import json
import os
import sys
import time
from pathlib import Path

from unisono.config.load import load_settings
from unisono.prepare import prepare_corpus


def main() -> None:
    """Prepare with the defaults of the command."""
    settings = load_settings(Path(sys.argv[1]))
    stages: dict[str, float] = {}
    before, stage = time.perf_counter(), "start"
    workers = len(os.sched_getaffinity(0))
    for progress in prepare_corpus(settings.data, settings.corpus, workers=workers):
        now = time.perf_counter()
        stages[stage] = stages.get(stage, 0.0) + now - before
        before, stage = now, progress.stage
    stages[stage] = stages.get(stage, 0.0) + time.perf_counter() - before
    print(json.dumps({name: seconds for name, seconds in stages.items() if seconds > 0.05}))


if __name__ == "__main__":  # which the worker processes are not
    main()
