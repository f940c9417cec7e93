"""A running laboratory: its machines, the programs on them, and faults to inject."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import psutil

from unisono.errors import RunError
from unisono.lab import commands
from unisono.lab.build import build
from unisono.lab.commands import Argv, check_requirements, search_path
from unisono.lab.plan import LabPlan, address_of, name_of, shape_of
from unisono.launch.fan_out import FanOut
from unisono.launch.plan import Command
from unisono.secure.secret import SECRET, new_secret


class NamespaceHolder:
    """The first process of a machine or the switch: its namespaces exist while it lives."""

    def __init__(self, argv: Argv) -> None:
        # In a session of its own, Ctrl-C at the terminal does not reach it. Its standard input
        # ends when we close it or when this process dies, even by kill -9.
        self._process = subprocess.Popen(
            argv,
            env={**os.environ, "PATH": search_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._read_pid()

    def _read_pid(self) -> str:
        pid = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not pid.isdecimal():
            _, reason = self._process.communicate()
            raise RunError(
                f"a machine did not start: {' '.join(reason.split()) or 'no reason given'}",
                where="unshare",
                fix="in a container, give it more privileges, such as docker run --privileged",
            )
        return pid

    def release(self) -> None:
        """End the namespaces and every process in them; return when they are gone."""
        if self._process.returncode is None:
            self._process.communicate()


class LabProcess(subprocess.Popen[str]):
    """A program on a machine of the laboratory, used like any other `Popen` of text.

    The process started here only enters the machine, waits for the program and ends as it
    does; `program` is the id of the program itself, which gets the signals.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: dict[str, str],
        *,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        at_terminal: bool = False,
    ) -> None:
        self._at_terminal = at_terminal
        super().__init__(
            argv,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            process_group=None if at_terminal else 0,
        )

    @property
    def program(self) -> int | None:
        """Return the program's process id on the host, or None if it does not run."""
        try:
            children = psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return None
        return children[0].pid if children else None

    def send_signal(self, sig: int) -> None:
        """Send a signal to the program; SIGKILL to its whole process group."""
        if self.poll() is not None:
            return
        if sig == signal.SIGKILL and not self._at_terminal:
            os.killpg(self.pid, sig)
            return
        try:
            os.kill(self.program or self.pid, sig)
        except ProcessLookupError:  # it ended by itself a moment ago
            self.poll()

    def forward(self, sig: int) -> None:
        """Send on a signal to this process, unless the terminal has sent it to both."""
        if not (self._at_terminal and sig == signal.SIGINT):
            self.send_signal(sig)

    def close(self) -> None:
        """Wait for the program, whose machine is gone, and close its streams."""
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


class Lab:
    """The machines of `plan`, from entering to leaving the `with` block.

    Leaving it kills everything that still runs on them, and so does the death of this process.
    """

    def __init__(self, plan: LabPlan) -> None:
        self.plan = plan
        self._open = ExitStack()
        self._switch = ""
        self._machines: tuple[str, ...] = ()
        self._holders: dict[str, NamespaceHolder] = {}
        self._jobs: list[LabProcess] = []
        self._secret = new_secret()

    def __enter__(self) -> "Lab":
        check_requirements(self.plan)
        with ExitStack() as undo:

            def hold(name: str, argv: Argv) -> str:
                holder = NamespaceHolder(argv)
                undo.callback(holder.release)
                self._holders[name] = holder
                return holder.pid

            self._switch, self._machines = build(self.plan, hold, self._do)
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for job in self._jobs:
            job.close()

    @staticmethod
    def name(node: int) -> str:
        """Return the host name of a node."""
        return name_of(node)

    @staticmethod
    def address(node: int) -> str:
        """Return the address of a node."""
        return address_of(node)

    def command(self, node: int, argv: Sequence[str], *, at_terminal: bool = False) -> Argv:
        """Return the command that runs `argv` on a node, in the current directory."""
        self.plan.check_node(node, where="Lab")
        cores = commands.cores_of(node, self.plan.nodes, sorted(os.sched_getaffinity(0)))
        machine, here = self._machines[node], str(Path.cwd())
        return commands.enter(machine, cores, here, argv, at_terminal=at_terminal)

    def start(
        self,
        node: int,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> LabProcess:
        """Start a program on a node; killing the process returned kills the program."""
        command, environment = self.command(node, argv), self._variables(variables)
        return self._keep(
            LabProcess(command, environment, stdin=stdin, stdout=stdout, stderr=stderr)
        )

    def attach(
        self, node: int, argv: Sequence[str], *, variables: Mapping[str, str] | None = None
    ) -> LabProcess:
        """Start a program that takes over our input, output and terminal."""
        at_terminal = os.isatty(0)
        command = self.command(node, argv, at_terminal=at_terminal)
        environment = self._variables(variables)
        return self._keep(LabProcess(command, environment, stdin=None, at_terminal=at_terminal))

    def run(
        self,
        node: int,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a node to its end; return its exit code and output."""
        job = self.start(
            node, argv, variables=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = job.communicate(timeout=timeout)
        except BaseException:
            job.kill()
            raise
        return subprocess.CompletedProcess(list(argv), job.returncode, out, err)

    def fan_out(
        self, programs: Sequence[tuple[int, Command]], *, may_lose: bool = False
    ) -> FanOut:
        """Start programs on several nodes, with their output read in one place."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        jobs = {
            node: self.start(node, command.argv, variables=command.variables, **pipes)
            for node, command in programs
        }
        return FanOut(jobs, may_lose=may_lose)

    def link_down(self, node: int) -> None:
        """Unplug the cable of a node: it reaches nobody but itself."""
        self.plan.check_node(node, where="Lab.link_down")
        self._do(commands.set_carrier(node, self._switch, up=False))

    def link_up(self, node: int) -> None:
        """Plug in the cable of a node again."""
        self.plan.check_node(node, where="Lab.link_up")
        self._do(commands.set_carrier(node, self._switch, up=True))

    def set_link(self, node: int, rate: str, *, sent_only: bool = False) -> None:
        """Change the rate of a node's cable while it is in use; "" is no limit."""
        self.plan.check_node(node, where="Lab.set_link")
        sent = shape_of(rate, self.plan.burst, self.plan.delay, where="Lab.set_link")
        steps = commands.shape_sent(self._machines[node], sent, anew=True)
        if not sent_only:
            received = shape_of(rate, self.plan.burst, where="Lab.set_link")
            steps += commands.shape_received(node, self._switch, received, anew=True)
        for step in steps:
            self._do(step)

    def power_off(self, node: int) -> None:
        """Remove a node for good, with everything that runs on it."""
        self.plan.check_node(node, where="Lab.power_off")
        self._holders[name_of(node)].release()

    def _variables(self, further: Mapping[str, str] | None) -> dict[str, str]:
        own = {"PATH": search_path(), SECRET: self._secret}
        return {**os.environ, **own, **(further or {})}

    def _keep(self, job: LabProcess) -> LabProcess:
        self._jobs.append(job)
        return job

    def _do(self, argv: Argv) -> None:
        done = subprocess.run(
            argv, env=self._variables(None), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RunError(
                f"a step of the laboratory failed: {' '.join(done.stderr.split())}",
                where=shlex.join(argv),
            )
