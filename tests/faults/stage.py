"""A tiny training on the machines of a laboratory, heard node by node, to be disturbed."""

import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil

from support.tiny import tiny_settings
from unisono.config.load import to_toml
from unisono.lab.build import plan_agent
from unisono.lab.lab import Lab
from unisono.lab.plan import LabPlan
from unisono.launch.plan import Command
from unisono.records.events import Lost, from_lines
from unisono.small_files import read_lines

PATIENCE_SECONDS = 800.0
NEVER = 1_000_000
# torchrun looks after its nodes more often than it does by itself.
SOON = "last_call_timeout=1,keep_alive_interval=1,join_timeout=60"
QUICK = f"{SOON},read_timeout=5"


def write_config(corpus, directory, name="run", steps=NEVER, **tables):
    """Write the settings of a run into `directory`; return their file."""
    settings = tiny_settings(
        corpus,
        run=directory / name,
        train={"max_steps": steps},
        validation={"every_steps": NEVER},
        checkpoint={"every_steps": 5},
        **tables,
    )
    path = directory / f"{name}.toml"
    path.write_text(to_toml(settings))
    return path


class Stage:
    """Machines that train together; what each says is kept, line by line, with its time."""

    def __init__(self, config, run, nodes=2, options=(), tries=0, conf=QUICK):
        self.run, self.plan, self._conf = Path(run), LabPlan(nodes=nodes), conf
        self._config, self._options, self._tries = config, options, tries
        self.said = {node: [] for node in range(nodes)}
        self._news = queue.SimpleQueue()

    def __enter__(self):
        self.lab = Lab(self.plan).__enter__()
        self.jobs = {node: self.start(node) for node in range(self.plan.nodes)}
        return self

    def __exit__(self, *error):
        self.lab.__exit__(*error)

    def start(self, node):
        """Start the agent of a node, supervised if that was asked for."""
        options = [f"--rdzv-conf=is_host={int(node == 0)},{self._conf}", *self._options]
        command = plan_agent(self.plan, node, ["train", str(self._config)], options=options)
        if self._tries:
            argv = list(command.argv)
            argv[3:3] = [f"--supervise={self._tries}", f"--run={self.run}"]
            command = Command(tuple(argv), command.variables)
        job = self.lab.start(
            node,
            command.argv,
            variables=command.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        threading.Thread(target=self._listen, args=(node, job.stderr), daemon=True).start()
        return job

    def _listen(self, node, stream):
        try:
            for line in stream:
                self.said[node].append((time.time(), line.rstrip("\n")))
                self._news.put(node)
        except ValueError:
            pass  # the laboratory was left

    def wait_for(self, text, node=0, after=0.0):
        """Return the first line with `text` that a node says, and when; else all it said."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for moment, line in list(self.said[node]):
                if text in line and moment >= after:
                    return line, moment
            try:
                self._news.get(timeout=0.2)
            except queue.Empty:
                if self.jobs[node].poll() is not None and self._news.empty():
                    deadline = min(deadline, time.monotonic() + 1.0)
        raise AssertionError(f"node{node} never said {text!r} but:\n{self.text(node)}")

    def text(self, node):
        return "\n".join(line for _, line in self.said[node])

    def everything(self):
        return "\n".join(f"node{n} | {line}" for n in self.said for _, line in self.said[n])

    def agent(self, node):
        """Return the process of a node's agent."""
        program = psutil.Process(self.jobs[node].program)
        return program.children()[0] if self._tries else program

    def worker(self, node):
        """Return the first process that trains on a node."""
        children = self.agent(node).children()
        return next(child for child in children if "train" in child.cmdline())

    def pid_inside(self, node):
        """Return the number that a node's worker has on its machine."""
        status = Path(f"/proc/{self.worker(node).pid}/status").read_text()
        return next(
            line.split()[-1] for line in status.splitlines() if line.startswith("NSpid")
        )

    def loss(self, rank, after=0.0):
        """Return the last loss since then of which the events of a rank tell.

        The terminal hears of it first: a disk may be slow, or gone with the link.
        """
        path = self.run / "events" / f"rank-{rank:04d}.jsonl"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            events = [e for e in from_lines(read_lines(path)) if isinstance(e, Lost)]
            if events and events[-1].time >= after:
                return events[-1]
            time.sleep(0.1)
        raise AssertionError(f"the events of rank {rank} tell of no loss\n{self.everything()}")

    def steps(self):
        path = self.run / "events" / "rank-0000.jsonl"
        return path.read_text().count('"kind":"step"') if path.is_file() else 0


def kill(process):
    os.kill(process.pid, signal.SIGKILL)


def stop(process):
    os.kill(process.pid, signal.SIGSTOP)
