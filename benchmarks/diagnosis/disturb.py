"""What befalls a run from outside: links, other programs, signals."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from diagnosis.course import Stage

Act = Callable[[Stage], dict[str, Any]]
FLOW_PORT = "5001"
PERIOD_SECONDS = 0.1
FREE_CABLE = "10.89.0"


def slow_link_at(step: int, rate: str) -> Act:
    """Change the rate of node1's cable after an update."""

    def act(stage: Stage) -> dict[str, Any]:
        stage.wait_for_step(step)
        stage.lab.set_link(1, rate)
        return {"changed_after_step": stage.steps()}

    return act


def quota(node: int, share: float) -> Act:
    """Let the processes of a node have their core for a part of every tenth of a second.

    That is what a quota of the kernel does. Another program on the core would do as well, but
    then a machine that is shared moves its load to the other node's core.
    """

    def act(stage: Stage) -> dict[str, Any]:
        stage.wait_for_step(1)
        workers = stage.workers(node)
        while stage.goes_on() and all(map(_lives, workers)):
            with suppress(psutil.NoSuchProcess):
                for worker in workers:
                    worker.suspend()
                time.sleep(PERIOD_SECONDS * (1 - share))
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.resume()
            time.sleep(PERIOD_SECONDS * share)
        return {}

    return act


def _lives(worker: psutil.Process) -> bool:
    try:
        return worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def other_flow(bytes_per_second: float) -> Act:
    """Copy something from node1 to node0 at a rate; tell how much during the updates."""

    def act(stage: Stage) -> dict[str, Any]:
        stage.wait_for_step(1)
        journal = stage.home / "flow"
        stage.start(0, "flow.py", "receive", FLOW_PORT)
        host = stage.lab.name(0)
        stage.start(1, "flow.py", "send", host, FLOW_PORT, str(bytes_per_second), str(journal))
        while stage.goes_on():
            time.sleep(0.1)
        lines = [line.split() for line in journal.read_text().splitlines()]
        return {"flow": [(float(when), int(sent)) for when, sent in lines if sent]}

    return act


def stop(node: int, step: int) -> Act:
    """Stop the process of a node after an update."""
    return _signal(node, step, signal.SIGSTOP)


def kill(node: int, step: int) -> Act:
    """Kill the process of a node after an update."""
    return _signal(node, step, signal.SIGKILL)


def _signal(node: int, step: int, number: int) -> Act:
    def act(stage: Stage) -> dict[str, Any]:
        stage.wait_for_step(step)
        os.kill(stage.worker(node).pid, number)
        return {"at": time.time()}

    return act


def pull_cable(node: int, step: int) -> Act:
    """Pull the cable out of a node after an update."""

    def act(stage: Stage) -> dict[str, Any]:
        stage.wait_for_step(step)
        stage.lab.link_down(node)
        return {"at": time.time()}

    return act


def lay_free_cable(stage: Stage) -> None:
    """Join both nodes by a second cable, which has no limit."""
    first, second = (_inside(stage, node) for node in (0, 1))
    _ip(first, "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", second)
    for number, node in enumerate((first, second), start=1):
        _ip(node, "address", "add", f"{FREE_CABLE}.{number}/24", "dev", "eth1")
        _ip(node, "link", "set", "eth1", "up")


def go_a_long_way(seconds: float) -> Callable[[Stage], None]:
    """Replace the cables of both nodes by a way over node2, which takes so long."""

    def furnish(stage: Stage) -> None:
        between = _inside(stage, 2)
        for node in (0, 1):
            inside, port = _inside(stage, node), f"port{node}"
            far = ("type", "veth", "peer", "name", "far", "netns", inside)
            _ip(between, "link", "add", port, *far)
            _ip(between, "link", "set", port, "up")
            _ip(inside, "link", "set", "eth0", "down", "name", "unplugged")
            _ip(inside, "address", "flush", "dev", "unplugged")
            _ip(inside, "link", "set", "far", "name", "eth0")
            _ip(inside, "address", "add", f"{stage.lab.address(node)}/24", "dev", "eth0")
            _ip(inside, "link", "set", "eth0", "up")
            if stage.start(node, "far.py", "honest", "eth0").wait(timeout=20):
                raise SystemExit(f"node{node} leaves its checksums to a card")
        stage.start(2, "far.py", "relay", "port0", "port1", str(seconds))

    return furnish


def _inside(stage: Stage, node: int) -> str:
    """Return the number of a process that lives on a node as long as the node."""
    job = stage.lab.start(node, ["sleep", "1000"])
    while job.program is None:
        time.sleep(0.01)
    return str(job.program)


def _ip(process: str, *words: str) -> None:
    subprocess.run(("nsenter", "--target", process, "--net", "ip", *words), check=True)
