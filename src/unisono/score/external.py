"""Scores by a metric of another environment: a command that reads triples, one a line.

COMET, MetricX and the like pin versions that clash with ours. So a program of its own
environment reads lines of source, translation and reference, separated by tabs, and writes one
number for each.
"""

import math
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from unisono.errors import ConfigError, DataError
from unisono.score.metrics import Metric
from unisono.score.resample import Numbers


@dataclass(frozen=True)
class ExternalMetric:
    """The command of a metric. Its score of a set is the mean over the sentences."""

    command: str
    higher_is_better: bool = True

    def counts(
        self, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> Numbers:
        """Return the number of each sentence, and 1 (N, 2)."""
        numbers = _run(self.command, sources, translations, references)
        return np.stack([np.array(numbers), np.ones(len(numbers))], axis=1)

    def metric(self, sources: Sequence[str]) -> Metric:
        """Return the metric for translations of `sources`."""
        return Metric(
            self.command,
            self.higher_is_better,
            partial(self.counts, sources),
            lambda sums: sums[:, 0] / sums[:, 1],
            lambda: "mean over the sentences",
        )


def _run(command: str, *texts: Sequence[str]) -> list[float]:
    lines = [
        "\t".join(cell.replace("\t", " ") for cell in row) for row in zip(*texts, strict=True)
    ]
    try:
        done = subprocess.run(
            shlex.split(command),
            input="".join(f"{line}\n" for line in lines).encode(),
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the command cannot be started: {error}",
            where="--with",
            fix='give a command and its arguments: --with "/opt/comet/bin/python comet.py"',
        ) from error
    if done.returncode:
        raise DataError(
            f"the command ended with exit code {done.returncode}",
            where=f"--with {command}",
            fix="run it by hand: it reads SOURCE, TRANSLATION and REFERENCE with tabs between",
        )
    return _numbers(command, done.stdout.decode("utf-8", "replace").split("\n"), len(lines))


def _numbers(command: str, lines: list[str], expected: int) -> list[float]:
    found = lines if lines[-1] else lines[:-1]
    fix = "the command has to write one number for each line that it reads, and nothing else"
    if len(found) != expected:
        raise DataError(
            f"the command wrote {len(found)} lines for {expected} sentences",
            where=f"--with {command}",
            fix=fix,
        )
    numbers = []
    for number, line in enumerate(found, start=1):
        try:
            numbers.append(float(line))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise DataError(
                f"line {number} of its output is no number: {line[:80]!r}",
                where=f"--with {command}",
                fix=fix,
            )
    return numbers
