"""What becomes of a process whose parent dies or whose terminal closes.

Otherwise the workers of a killed launcher keep training as orphans and write into the run
directory that its successor uses. Whoever starts a process names itself in its environment: a
process that first imports torch for seconds could not tell later that its parent has changed.
"""

import ctypes
import os
import signal

PARENT = "UNISONO_PARENT"
PR_SET_PDEATHSIG = 1


def parent_variables() -> dict[str, str]:
    """Return the environment variable by which a child of this process knows its parent."""
    return {PARENT: str(os.getpid())}


def die_with_launcher() -> None:
    """Die with the parent if that is a launcher of ours, which has named itself."""
    if PARENT in os.environ:
        # Taken out: what this process starts has another parent.
        die_with_parent(int(os.environ.pop(PARENT)))


def die_with_parent(parent: int = 0) -> None:
    """Ask the kernel to kill this process when its parent dies; if it has died, end now."""
    parent = parent or os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def without_terminal() -> None:
    """Send what this process and its children still write to a closed terminal to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def hang_up_counts() -> bool:
    """Return whether SIGHUP means something; `nohup` lets a process ignore it."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
