"""`unisono attach`: come back to a run that was launched with --detach."""

import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from unisono.cli.launching.streaming import finish, open_stream, remind_of_idle, talk
from unisono.cli.options import PathType
from unisono.cli.runs.pull import launch_of
from unisono.errors import ConfigError, DataError, UnisonoError
from unisono.exit_codes import DONE, PREEMPTED, RESTARTABLE, ROOT_CAUSES
from unisono.launch.probe_client import UnreachableError
from unisono.launch.stream.detached import OutputReader, read_wrapper
from unisono.launch.stream.launch_record import LaunchRecord
from unisono.launch.stream.messages import SignalRun, YesOrNo
from unisono.launch.stream.run_stream import RunStream

OUTPUT_LOOK_SECONDS = 0.3
CLOCKS_SECONDS = 2.0  # by so much the clocks of machines may differ
# How long to wait for a machine that does not answer when the others have ended.
LOST_SECONDS = 60.0


@click.command()
@click.argument("run", type=PathType)
@click.option("--stop", is_flag=True, help="Ask the run to stop and save, and wait for it.")
@click.option("--kill", is_flag=True, help="Kill the processes of the run; nothing is saved.")
def attach(run: Path, stop: bool, kill: bool) -> None:
    """Fetch and show what the run in RUN did since you left, and follow it to its end.

    RUN is the directory here of a run that `unisono launch --detach` has started. Ctrl-C leaves
    it alone again: the run goes on. The exit code is that of the run once it has ended.
    """
    launched = launch_of(run)
    if not launched.detached:
        raise ConfigError(
            f"{run} was not launched with --detach, so it ended with its launcher",
            where=str(run),
            fix=f"fetch what it left: unisono pull {run}",
        )
    stream = open_stream(launched, run, create=False, checkpoints=launched.checkpoints)
    stream.start()
    try:
        code = _follow(run, launched, stream, stop=stop or kill, kill=kill)
    except KeyboardInterrupt:
        finish(stream, OUTPUT_LOOK_SECONDS, quiet=True)
        talk(f"left; the run goes on. Come back: unisono attach {run}; stop it: … --stop")
        sys.exit(DONE)
    finish(stream)
    remind_of_idle(run, launched.remind)
    sys.exit(code)


def _follow(
    run: Path, launched: LaunchRecord, stream: RunStream, *, stop: bool, kill: bool
) -> int:
    """Show the output of all nodes until the last has ended; return the run's exit code."""
    hosts = [machine.host for machine in launched.machines]
    output, asked, answered = OutputReader(run, len(hosts)), set[str](), time.monotonic()
    while True:
        codes = _exit_codes(run, launched)
        for node, line in output.lines():
            print(f"{hosts[node]} | {line}", file=sys.stderr, flush=True)
        output.remember()
        missing = [host for node, host in enumerate(hosts) if node not in codes]
        if not missing:
            return _exit_code(codes)
        if not codes or any(stream.client_of(host) is not None for host in missing):
            answered = time.monotonic()
        if time.monotonic() - answered > LOST_SECONDS:
            talk(f"the others have ended, and {', '.join(missing)} cannot be reached")
            return _exit_code(codes) or RESTARTABLE
        if stop:
            _ask_to_stop(stream, hosts, asked, kill=kill)
        time.sleep(OUTPUT_LOOK_SECONDS)


def _exit_codes(run: Path, launched: LaunchRecord) -> dict[int, int]:
    """Return the exit codes of the nodes that have ended since the launch."""
    found = {}
    for node in range(len(launched.machines)):
        state = read_wrapper(run, node)
        if state is None or state.started < launched.started - CLOCKS_SECONDS:
            continue
        if state.exit_code is not None:
            found[node] = state.exit_code
    return found


def _ask_to_stop(stream: RunStream, hosts: list[str], asked: set[str], *, kill: bool) -> None:
    for node, host in enumerate(hosts):
        client = stream.client_of(host)
        if host in asked or client is None:
            continue
        with suppress(DataError, UnreachableError, UnisonoError, OSError):
            if client.ask(SignalRun(node, kill), YesOrNo).yes:
                asked.add(host)


def _exit_code(codes: dict[int, int]) -> int:
    bad = [code for code in codes.values() if code]
    if PREEMPTED in bad:
        return PREEMPTED
    return next((code for code in bad if code in ROOT_CAUSES), bad[0] if bad else DONE)
