"""What a laboratory leaves on the machine: processes and networks."""

import os
import time
from pathlib import Path

import psutil


def until(happened, seconds=60):
    """Wait for something that other processes do."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def below(pid):
    """Return all processes that a process has started, and theirs."""
    return psutil.Process(pid).children(recursive=True)


def gone(processes):
    """Say whether all of them end soon."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive


def network_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def networks_in_use():
    """Return the network namespaces that any process on this machine is in."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                found.add(network_of(process.name))
            except OSError:  # it ended while we looked
                continue
    return found
