"""`unisono lab`: virtual machines on this one."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from unisono.cli import VERBS
from unisono.cli.check import check
from unisono.cli.options import fewest_option, restarts_option
from unisono.cli.pages.progress import forwarding_signals, show_output
from unisono.cli.train import train
from unisono.config.load import load_settings
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.exit_codes import PREEMPTED
from unisono.lab.build import dry_run as lab_dry_run
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan, name_of
from unisono.launch.plan import Command, Restarts
from unisono.records.status import was_preempted

ALL_NODES = "all"
DISTRIBUTED = {"train": train, "check": check}  # verbs that all nodes run under torchrun


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--nodes", default=2, show_default=True, help="Number of machines.")
@click.option(
    "--workers-per-node",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes on each machine.",
)
@click.option("--link", default="", metavar="RATE", help="Rate of every link, such as 100mbit.")
@click.option(
    "--link-from",
    multiple=True,
    metavar="NODE=RATE",
    help="Rate at which one node sends, such as 1=10mbit; repeatable.",
)
@click.option(
    "--burst",
    default="",
    metavar="SIZE",
    help="How much a link may send at once, such as 64kb.",
)
@click.option("--delay", default="", metavar="TIME", help="Delay of every packet, such as 5ms.")
@restarts_option
@fewest_option
@click.option("--on", default="", metavar="NODE", help="Node to run on: 0, 1, … or all.")
@click.option("--dry-run", is_flag=True, help="Show the commands; needs no root.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def lab(
    nodes: int,
    workers_per_node: int,
    link: str,
    link_from: tuple[str, ...],
    burst: str,
    delay: str,
    restarts: int,
    fewest: int,
    on: str,
    dry_run: bool,
    command: tuple[str, ...],
) -> None:
    """Make virtual machines node0, node1, … on this one, run COMMAND there, and clean up.

    `lab -- train CONFIG …` trains on all nodes together, under torchrun, and `lab -- check
    CONFIG …` measures them. Any other command is a program on one node: `lab -- bash` opens a
    shell on node0, `lab --on 1 -- bash` on node1; with `--on all` it runs on every node.
    """
    plan = LabPlan(nodes, workers_per_node, link, _rates(link_from), burst=burst, delay=delay)
    distributed = command[0] in DISTRIBUTED
    if distributed:
        _check_all_nodes(on, command[0])
    run = _check_training(command) if distributed and (restarts or not dry_run) else None
    again = Restarts(restarts, str(run or ""), fewest)
    programs = _agents(plan, command, again) if distributed else _programs(plan, on, command)
    if dry_run:
        print(lab_dry_run(plan, programs, sorted(os.sched_getaffinity(0))))
        return
    began = time.time()
    with Lab(plan) as machines:
        alone = len(programs) == 1 and not distributed
        code = (
            _attach(machines, *programs[0])
            if alone
            else _run_on_all(
                machines, programs, may_lose=bool(fewest), bare=command[0] == "check"
            )
        )
    if code and run is not None and was_preempted(run, since=began):
        code = PREEMPTED
    sys.exit(code)


def _rates(texts: Sequence[str]) -> dict[int, str]:
    rates = {}
    for text in texts:
        node, equals, rate = text.partition("=")
        if not equals or not node.strip().isdecimal():
            raise ConfigError(
                f'"{text}" does not name a node', where="--link-from", fix="write 1=10mbit"
            )
        rates[int(node)] = rate
    return rates


def _check_all_nodes(on: str, verb: str) -> None:
    if on:
        raise ConfigError(
            f"`{verb}` runs on all nodes",
            where="--on",
            fix="leave out --on, or use fewer nodes",
        )


def _agents(
    plan: LabPlan, words: Sequence[str], restarts: Restarts
) -> list[tuple[int, Command]]:
    nodes = range(plan.nodes)
    return [(node, plan_agent(plan, node, words, restarts=restarts)) for node in nodes]


def _programs(plan: LabPlan, on: str, words: Sequence[str]) -> list[tuple[int, Command]]:
    if shutil.which(words[0]) is None:
        known = words[0] in VERBS
        fix = f"write `unisono {words[0]} …`" if known else "check its name, or give its path"
        raise ConfigError(f"there is no program `{words[0]}`", where="lab", fix=fix)
    if on != ALL_NODES and not (on or "0").isdecimal():
        raise ConfigError(f'"{on}" is not a node', where="--on", fix="give a number, or all")
    nodes = range(plan.nodes) if on == ALL_NODES else [int(on or "0")]
    for node in nodes:
        plan.check_node(node, where="--on")
    return [(node, Command(tuple(words))) for node in nodes]


def _check_training(words: Sequence[str]) -> Path:
    """Return the run directory of the command; raise its errors now, and only once."""
    parameters = DISTRIBUTED[words[0]].make_context(words[0], list(words[1:])).params
    settings = load_settings(parameters["config"], parameters["overrides"])
    open_corpus(Path(settings.corpus.directory))
    return Path(settings.run)


def _attach(machines: Lab, node: int, command: Command) -> int:
    """Give the terminal to a program on one node; return its exit code."""
    names = ", ".join(name_of(node) for node in range(machines.plan.nodes))
    print(f"on {name_of(node)}; the machines are {names}", file=sys.stderr, flush=True)
    job = machines.attach(node, command.argv, variables=command.variables)
    with forwarding_signals(job.forward):
        code = job.wait()
    _take_terminal_back()
    return 128 - code if code < 0 else code


def _run_on_all(
    machines: Lab, programs: Sequence[tuple[int, Command]], *, may_lose: bool, bare: bool
) -> int:
    """Run programs on all nodes and show their output; return the first bad exit code."""
    running = machines.fan_out(programs, may_lose=may_lose)
    names = [name_of(node) for node in range(machines.plan.nodes)]
    show_output(running, names, bare=bare)
    return running.exit_code


def _take_terminal_back() -> None:
    # A shell takes the terminal for itself, and cannot return it from inside a machine.
    if os.isatty(0):
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)
