"""`unisono selftest`: two minutes that prove an installation, on its own devices."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from unisono.atomic import write_text
from unisono.cli.launching.options import host_options
from unisono.cli.launching.selftest_runs import Machines, PartOutput, remove, run_part, set_up
from unisono.cli.options import PathType, workers_option
from unisono.exit_codes import DONE, FAILED, RESTARTABLE
from unisono.nvidia import read_driver
from unisono.selftest.outcome import SelftestLine, SelftestResult, result_of
from unisono.selftest.trial import KILLED_AT, TRIAL_PREFIX

NAMED_WITHIN_SECONDS = 25.0  # `sync.lost_after`, and a busy machine's share
RESUMED_LOSS = 0.02


@click.command()
@workers_option("Processes on each machine; default: one for each GPU, or 2 without GPUs.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="What to test.",
)
@click.option("--json", "file", metavar="FILE", type=PathType, help="Write the result here.")
@host_options
def selftest(workers: int, device: str, file: Path | None, **where: Any) -> None:
    """Prove in two minutes that Unisono trains correctly here, on CPUs or GPUs.

    It compares versions with devices, sums numbers over all processes, makes the same updates
    on the device and on the CPU, tries every strategy, kills a process in mid-run, continues,
    and measures memory and speed. The exit code is 1 if anything failed; send us the file of
    --json then.
    """
    began, driver = time.monotonic(), read_driver()
    directory = (
        Path(where["directory"] or tempfile.gettempdir()) / f"{TRIAL_PREFIX}{time.time_ns()}"
    )
    machines = Machines(directory, workers, device, where)
    lines: list[SelftestLine] = []
    try:
        set_up(machines)
        for line in _lines(machines):
            print(line, flush=True)
            lines.append(line)
    finally:
        remove(machines)
    names = [name for name in where["hosts"].split(",") if name]
    result = result_of(lines, names, driver, time.monotonic() - began)
    _show_end(result)
    if file is not None:
        write_text(file, msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
        print(f"wrote {file}", file=sys.stderr)
    sys.exit(DONE if result.passed else FAILED)


def _lines(machines: Machines) -> Any:
    group = run_part(machines, "group")
    yield from group.lines
    if group.exit_code:
        yield _broken("tests of the group", group)
        if not group.lines:
            return
    killed = run_part(machines, "train", kill_at=KILLED_AT)
    yield judge_kill(killed)
    yield judge_resume(group, run_part(machines, "train"))


def _broken(name: str, part: PartOutput) -> SelftestLine:
    return SelftestLine(
        name=name, passed=False, text=part.error, fix=part.fix or "see the lines above"
    )


def judge_kill(part: PartOutput) -> SelftestLine:
    """Judge whether the process that killed itself was named in time, with the right code."""
    name = "a killed process"
    if part.killed < 0:
        return _broken(name, part)
    if not part.several:
        text = f"alone, it ended with exit code {part.exit_code}"
        return SelftestLine(name=name, passed=part.exit_code != 0, text=text)
    right = part.seconds_to_name is not None and part.exit_code == RESTARTABLE
    took = (
        f"after {part.seconds_to_name:.1f} s" if part.seconds_to_name is not None else "never"
    )
    return SelftestLine(
        name=name,
        passed=right and (part.seconds_to_name or 0) <= NAMED_WITHIN_SECONDS,
        text=f"process {part.killed} was named {took}, exit code {part.exit_code}",
        fix="the others should name it within 10 s and end with exit code 76",
        figures={"seconds": part.seconds_to_name or -1.0},
    )


def judge_resume(whole: PartOutput, resumed: PartOutput) -> SelftestLine:
    """Judge whether a run that was killed and continued equals one that never stopped."""
    name = "save, kill, resume"
    for part in (whole, resumed):
        if part.end is None:
            return _broken(name, part)
    if whole.end is None or resumed.end is None:  # said above
        return _broken(name, whole)
    same = whole.end.weights == resumed.end.weights
    apart = abs(whole.end.loss - resumed.end.loss) / whole.end.loss
    near = apart <= RESUMED_LOSS
    began = resumed.end.began
    text = (
        "the same bits as without the kill" if same else f"loss differs by {100 * apart:.2f} %"
    )
    return SelftestLine(
        name=name,
        passed=(same or near) and whole.end.step == resumed.end.step and began > 0,
        text=f"continued at update {began}: {text}"
        if began
        else "the run began again, though a checkpoint had been saved",
        fix="a continued run should equal one that never stopped: send us the file of --json",
        figures={"loss_apart": apart, "began": began},
    )


def _show_end(result: SelftestResult) -> None:
    failed = [line.name for line in result.lines if line.passed is False]
    verdict = f"failed: {', '.join(failed)}" if failed else "everything works"
    print(f"{verdict} ({result.seconds:.0f} s)", flush=True)
