"""How a laboratory is put together, step by step: for real, or only to be shown."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.lab import commands
from unisono.lab.commands import Argv
from unisono.lab.plan import LabPlan, name_of
from unisono.launch.plan import Command

_PLACEHOLDER = re.compile(r"'(\$(?:switch|node\d+))'")


def build(
    plan: LabPlan, hold: Callable[[str, Argv], str], do: Callable[[Argv], None]
) -> tuple[str, tuple[str, ...]]:
    """Make the switch and the machines of `plan`; return their process numbers.

    `hold` starts a command that stays and returns the process number that it says; `do`
    runs one to its end.
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
    """Writes down what would be run; process numbers that nobody knows yet have a `$`."""

    lines: list[str] = field(default_factory=list)

    def hold(self, name: str, argv: Argv) -> str:
        """Write down a command that stays."""
        self.lines.append(f"# stays until its input ends; it prints ${name}:")
        self.do(argv)
        return f"${name}"

    def do(self, argv: Argv) -> None:
        """Write down a command."""
        self.run(Command(argv))

    def run(self, command: Command) -> None:
        """Write down a command with its variables."""
        self.lines.append(_PLACEHOLDER.sub(r"\1", command.as_shell()))


def dry_run(
    plan: LabPlan, programs: Sequence[tuple[int, Command]], cores: Sequence[int]
) -> str:
    """Return the commands that would make the laboratory and run `programs` on its nodes."""
    page = DryRun()
    _, machines = build(plan, page.hold, page.do)
    page.lines.append("# at the same time:" if len(programs) > 1 else "# and then:")
    for node, program in programs:
        share = commands.cores_of(node, plan.nodes, cores)
        argv = commands.enter(machines[node], share, str(Path.cwd()), program.argv)
        page.run(Command(argv, program.variables))
    return "\n".join(page.lines)
