"""Weights & Biases, by its own package: into files, unless WANDB_MODE=online.

Files need no account and no network; `wandb sync` sends them later. The key is WANDB_API_KEY,
which only that package reads.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from unisono.publish.alerts import Alert
from unisono.publish.points import Point
from unisono.publish.retry import NotTakenError
from unisono.publish.sent import SENT_DIRECTORY
from unisono.publish.tracker import RunFacts, flat

WANDB_LEVELS = {"info": "INFO", "warning": "WARN", "error": "ERROR"}
AXES = {"training/*": "update", "validation/*": "update", "test/*": "update"}
AXES |= {"rank_*": "update", "machine/*": "second"}


class WandbFiles:
    """The project `project`; files go to `published/wandb` of the run directory."""

    def __init__(self, run: Path, project: str, variables: Mapping[str, str]) -> None:
        self._directory, self._project = run / SENT_DIRECTORY, project
        self._mode = "online" if variables.get("WANDB_MODE") == "online" else "offline"

    @property
    def place(self) -> str:
        return f"{self._mode} {self._project}"

    def open(self, facts: RunFacts, known: str) -> str:
        try:
            self._run = wandb.init(
                project=self._project,
                name=facts.name,
                id=facts.identity,
                resume="allow",
                dir=str(self._directory),
                config=facts.tags | flat(facts.settings),
                mode=self._mode,
                reinit="create_new",
                settings=wandb.Settings(
                    console="off",
                    silent=True,
                    disable_code=True,
                    disable_git=True,
                    x_disable_stats=True,  # of this process; we send those of the machines
                ),
            )
        except wandb.Error as error:
            raise NotTakenError(type(error).__name__) from error
        for names, axis in AXES.items():
            self._run.define_metric(names, step_metric=axis)
        return facts.identity

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            axis = "second" if point.of_machine else "update"
            self._run.log({**point.values, axis: point.at})

    def alert(self, fresh: Sequence[Alert], everything: Sequence[Alert]) -> None:
        for one in fresh:
            text, level = (
                f"{one.summary} {one.advice}".strip(),
                WANDB_LEVELS.get(one.severity, "INFO"),
            )
            self._run.alert(one.kind, text, level=level, wait_duration=0)

    def close(self, state: str) -> None:
        self._run.finish(exit_code=int(state == "failed"))
