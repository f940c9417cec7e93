"""How one run is made: its machines, its settings, and what is done to it."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from diagnosis.texts import data_tables, prepare
from unisono.config.load import resolve, to_toml
from unisono.diagnose.report import Report
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab, LabProcess
from unisono.lab.plan import LabPlan
from unisono.launch.plan import Command
from unisono.records.layout import RunDirectory
from unisono.records.view import RunView, read_run
from unisono.report.page import write_report

NEVER = 1_000_000
WORKER = str(Path(__file__).parent / "inside" / "worker.py")
INSIDE = Path(__file__).parent / "inside"
MOST_SECONDS = 240.0  # a run that takes longer stands still
STOPPED_AND_SAVED = 75

TIMED: dict[str, Any] = {
    "device": "cpu",
    "model": {
        **{"width": 128, "heads": 4, "inner": 512, "encoder_layers": 2, "decoder_layers": 2},
        **{"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0},
    },
    "batching": {"tokens_per_update": 2048, "tokens_per_micro_batch": 1024},
    "optimizer": {"name": "adam", "beta2": 0.98},
    "schedule": {"name": "inverse_sqrt", "peak": 0.001, "warmup_steps": 100},
    "validation": {"every_steps": NEVER, "bleu": False, "samples": 0},
    "checkpoint": {"every_steps": NEVER},
    "monitor": {"every": "0.5 s"},
    "decoding": {"beam": 1},
}


@dataclass(frozen=True)
class Course:
    """A run that is to be made.

    `nodes` train, and `further` ones stand beside them. `tables` change the usual settings;
    `faults` are built into the processes (`inside/worker.py`); `furnish` changes the machines
    before it begins; `disturb` acts from outside while it goes on, and returns what it did.
    `breaks` says that the run will not come to its end.
    """

    steps: int = 60
    nodes: int = 2
    workers: int = 1
    further: int = 0
    corpus: str = "work"
    link: str = ""
    link_from: Mapping[int, str] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, Any] = field(default_factory=dict)
    furnish: "Callable[[Stage], None] | None" = None
    disturb: "Callable[[Stage], dict[str, Any]] | None" = None
    breaks: bool = False

    def settings(self, home: Path, run: Path, seed: int) -> str:
        """Return the settings as TOML."""
        table: dict[str, Any] = {"seed": seed, "run": str(run), **TIMED}
        table |= {**data_tables(home, self.corpus), "train": {"max_steps": self.steps}}
        for name, changes in self.tables.items():
            replaces = not isinstance(changes, dict) or "name" in changes
            table[name] = changes if replaces else {**table.get(name, {}), **changes}
        return to_toml(resolve(table, where="the benchmark"))


@dataclass(frozen=True)
class Outcome:
    """A run that was made, what its report says, and what was done to it.

    `journal` is what the faults inside wrote down.
    """

    view: RunView
    report: Report
    notes: Mapping[str, Any]
    journal: tuple[dict[str, Any], ...]

    @property
    def wall(self) -> float:
        """Return the seconds from the first sign of life to the last."""
        return max(self.view.seen) - min(self.view.seen)

    @property
    def findings(self) -> tuple[str, ...]:
        """Return the ids of what was found."""
        return tuple(dict.fromkeys(finding.id for finding in self.report.findings))

    def finding(self, name: str) -> str:
        """Return all that a finding says, or "" if there is none of that id."""
        found = [f for f in self.report.findings if f.id == name]
        return "\n".join(line for f in found for line in (f.summary, *f.evidence))

    def core_seconds(self, ranks: Collection[int], steps: int) -> float:
        """Return for how long a position took or wanted a core, over updates 2 to `steps`."""
        rows = [e for e in self.journal if "busy" in e and e["step"] <= steps]
        rows = [row for row in rows if row["rank"] in ranks]
        seconds = sum(
            row["busy"] * ((row["step"] == steps) - (row["step"] == 1)) for row in rows
        )
        return seconds / sum(row["computed"] for row in rows if row["step"] > 1)

    def seconds_of(self, steps: int) -> float:
        """Return the time from the end of the first update to that of number `steps`."""
        times = {step.step: step.time for step in self.view.steps}
        return times[steps] - times[1]


class Stage:
    """A run that is going on in a laboratory."""

    def __init__(self, lab: Lab, run: Path, home: Path) -> None:
        self.lab, self.run, self.home = lab, run, home
        self.jobs: dict[int, LabProcess] = {}

    def steps(self) -> int:
        """Return how many updates have been made."""
        events = RunDirectory(self.run).events(0)
        return events.read_text().count('"kind":"step"') if events.is_file() else 0

    def wait_for_step(self, step: int) -> None:
        """Return when so many updates have been made, or the run has ended."""
        deadline = time.monotonic() + MOST_SECONDS
        while self.steps() < step and time.monotonic() < deadline and self.goes_on():
            time.sleep(0.05)

    def goes_on(self) -> bool:
        """Return whether any process still trains."""
        return any(job.poll() is None for job in self.jobs.values())

    def start(self, node: int, *words: str) -> LabProcess:
        """Start a program of `inside` on a node."""
        program = [sys.executable, str(INSIDE / words[0]), *words[1:]]
        return self.lab.start(node, program, stderr=subprocess.DEVNULL)

    def worker(self, node: int) -> psutil.Process:
        """Return the process that trains on a node, or the first of them."""
        return self.workers(node)[0]

    def workers(self, node: int) -> list[psutil.Process]:
        """Return the processes that train on a node."""
        children = psutil.Process(self.jobs[node].program).children()
        return [child for child in children if WORKER in child.cmdline()]


def make_run(course: Course, home: Path, name: str, seed: int) -> Outcome:
    """Make a run below `home`, and diagnose it."""
    prepare(home, course.corpus)
    run = home / "runs" / name
    shutil.rmtree(run, ignore_errors=True)
    config, said = run.with_suffix(".toml"), run.with_suffix(".log")
    run.parent.mkdir(exist_ok=True)
    config.write_text(course.settings(home, run, seed))
    journal = run.with_suffix(".journal")
    journal.unlink(missing_ok=True)
    variables = {"FAULTS": json.dumps(dict(course.faults)), "JOURNAL": str(journal)}
    plan = LabPlan(course.nodes, course.workers, course.link, course.link_from)
    with Lab(replace(plan, nodes=course.nodes + course.further)) as lab, ExitStack() as files:
        stage = Stage(lab, run, home)
        if course.furnish:
            course.furnish(stage)
        output = files.enter_context(said.open("w"))
        for node in range(plan.nodes):
            command = _with_faults(plan_agent(plan, node, ["train", str(config)]))
            stage.jobs[node] = lab.start(
                node,
                command.argv,
                variables={**command.variables, **variables},
                stdout=output,
                stderr=output,
            )
        notes = course.disturb(stage) if course.disturb else {}
        codes = _wait(stage, [0] if course.breaks else [*stage.jobs])
    if not course.breaks and any(code not in (0, STOPPED_AND_SAVED) for code in codes):
        raise SystemExit(f"{name} ended with {codes}:\n{said.read_text()[-3000:]}")
    lines = journal.read_text("utf-8").splitlines() if journal.is_file() else []
    entries = tuple(json.loads(line) for line in lines)
    return Outcome(read_run(run), write_report(run), notes, entries)


def _with_faults(command: Command) -> Command:
    """Return the command with our worker in the place of `-m unisono`."""
    argv = list(command.argv)
    place = len(argv) - 1 - argv[::-1].index("unisono")
    argv[place - 1 : place + 1] = [WORKER]
    return Command(tuple(argv), command.variables)


def _wait(stage: Stage, nodes: list[int]) -> list[int | None]:
    """Return the exit codes of these nodes; one that never ends has none."""
    deadline = time.monotonic() + MOST_SECONDS
    codes: list[int | None] = []
    for job in [stage.jobs[node] for node in nodes]:
        try:
            codes.append(job.wait(timeout=max(1.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            codes.append(None)
    return codes
