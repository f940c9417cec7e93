"""How a laboratory is built: for real, or as a dry run; and what trains on its nodes."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from unisono.lab import commands
from unisono.lab.commands import Argv
from unisono.lab.plan import LabPlan, address_of, name_of
from unisono.launch.plan import NO_RESTARTS, Command, RendezvousPoint, Restarts, agent_command

_PLACEHOLDER = re.compile(r"'(\$(?:switch|node\d+))'")


def build(
    plan: LabPlan, hold: Callable[[str, Argv], str], do: Callable[[Argv], None]
) -> tuple[str, tuple[str, ...]]:
    """Make the switch and the machines of `plan`; return their process ids.

    `hold` starts a command that keeps running and returns the process id it prints; `do` runs
    a command to its end.
    """
    switch = hold(commands.SWITCH, commands.make_switch())
    machines = []
    steps = commands.set_up_switch(switch)
    for node in range(plan.nodes):
        machine = hold(name_of(node), commands.make_machine(node, plan.nodes))
        machines.append(machine)
        steps += commands.connect(node, switch, machine)
        steps += commands.shape_sent(machine, plan.shape_sent(node))
        steps += commands.shape_received(node, switch, plan.shape_received(node))
    for step in steps:
        do(step)
    return switch, tuple(machines)


@dataclass
class DryRun:
    """Collects the commands instead of running them; unknown process ids become `$name`."""

    lines: list[str] = field(default_factory=list)

    def hold(self, name: str, argv: Argv) -> str:
        """Collect a command that keeps running."""
        self.lines.append(f"# runs until its input ends; it prints ${name}:")
        self.do(argv)
        return f"${name}"

    def do(self, argv: Argv) -> None:
        """Collect a command."""
        self.run(Command(argv))

    def run(self, command: Command) -> None:
        """Collect a command with its variables."""
        self.lines.append(_PLACEHOLDER.sub(r"\1", command.as_shell()))


def dry_run(
    plan: LabPlan, programs: Sequence[tuple[int, Command]], cores: Sequence[int]
) -> str:
    """Return the commands that would make the laboratory and run `programs` on its nodes."""
    shown = DryRun()
    _, machines = build(plan, shown.hold, shown.do)
    shown.lines.append("# at the same time:" if len(programs) > 1 else "# and then:")
    for node, program in programs:
        share = commands.cores_of(node, plan.nodes, cores)
        argv = commands.enter(machines[node], share, str(Path.cwd()), program.argv)
        shown.run(Command(argv, program.variables))
    return "\n".join(shown.lines)


def plan_agent(
    plan: LabPlan,
    node: int,
    arguments: Sequence[str],
    *,
    restarts: Restarts = NO_RESTARTS,
    options: Sequence[str] = (),
) -> Command:
    """Return the command of one node; together they run `unisono ARGUMENTS` as one run.

    `options` are further options of torchrun, of which the last one counts.
    """
    command = agent_command(
        # The usual port is free: the machine has a network of its own.
        RendezvousPoint(name_of(0), plan.nodes, "lab"),
        arguments,
        workers=plan.workers_per_node,
        is_first=node == 0,
        restarts=restarts,
        options=(f"--local-addr={address_of(node)}", *options),
    )
    cores = commands.cores_of(node, plan.nodes, sorted(os.sched_getaffinity(0)))
    threads = max(1, len(cores) // plan.workers_per_node)
    return replace(command, variables={"OMP_NUM_THREADS": str(threads)})
