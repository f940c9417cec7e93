"""What a laboratory leaves on the machine: processes and networks."""

import os
import time

import psutil


def until(happened, seconds=600):
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
    _, alive = psutil.wait_procs(processes)
    return not alive


def network_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def networks_in_use(began_before):
    """Return the network namespaces of all processes that began before a moment.

    A namespace that is gone leaves its number to another, perhaps of a laboratory beside us.
    """
    found = set()
    for process in psutil.process_iter():
        try:
            if process.create_time() < began_before:
                found.add(network_of(process.pid))
        except (OSError, psutil.NoSuchProcess):  # it ended while we looked
            continue
    return found
