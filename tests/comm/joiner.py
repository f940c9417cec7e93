"""A process that joins as its variables say, tells what it sees, and leaves.

SKEW is by how many seconds its clock is ahead, START how long it waits, INTERFACE the setting.
With GO it says that it is ready, and joins when it is told to. With LISTENERS it also prints
who listens on this machine while all are in. With DEATHS it kills itself when all are in,
unless torchrun has started it more often than that. SEAT stands in for its device.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import msgspec

from unisono.comm.bootstrap import join as module
from unisono.comm.bootstrap.join import join
from unisono.comm.bootstrap.seats import DeviceSeat
from unisono.errors import UnisonoError

PATIENCE = 600.0  # a busy machine is slow; pytest has the limit for a whole test


def listeners():
    shown = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True, check=True)
    return sorted({line.split()[3].rpartition(":")[0] for line in shown.stdout.splitlines()})


def main():
    right, skew = time.time, float(os.environ.get("SKEW", "0"))
    time.time = lambda: right() + skew
    if os.environ.get("SEAT"):
        seat = msgspec.json.decode(os.environ["SEAT"], type=DeviceSeat)
        module.seat_of = lambda world, driver: seat
    if os.environ.get("GO"):
        print("ready", flush=True)
        sys.stdin.readline()
    try:
        comm = join(
            "cpu",
            PATIENCE,
            start_seconds=float(os.environ.get("START", PATIENCE)),
            interface=os.environ.get("INTERFACE", ""),
            notify=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except UnisonoError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
    world = comm.world
    comm.barrier()
    found = {
        "rank": world.rank,
        "size": world.size,
        "host": socket.gethostname(),
        "interface": world.interface,
        "address": world.address,
        "warnings": world.warnings,
        "backends": [os.environ.get(f"{b}_SOCKET_IFNAME", "") for b in ("GLOO", "NCCL")],
        "listeners": listeners() if os.environ.get("LISTENERS") else [],
    }
    print(json.dumps(found), flush=True)
    comm.barrier()
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if world.rank == 1 and restarts < int(os.environ.get("DEATHS", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()
    comm.close()
    sys.stdout.flush()
    os._exit(0)  # as the command line: Python's end would abort a thread of gloo that needs it


if __name__ == "__main__":
    main()
