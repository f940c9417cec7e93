"""How NCCL is set up: its watchdog, its interface, and the fabric it prefers. No torch here.

NCCL sends over InfiniBand or RoCE where it finds an adapter that is up, whatever interface
was chosen; the interface then only serves to connect. `NCCL_IB_DISABLE=1` keeps it on TCP.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from unisono.comm.bootstrap.network import GLOO, NCCL
from unisono.comm.protocol import World

ADAPTERS = Path("/sys/class/infiniband")
ACTIVE = "ACTIVE"
# Abort a communicator that failed, but leave ending the process to us: torch's default ends
# it before the heartbeat can say which process was lost.
WATCHDOG = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    # The flight recorder: what each process had sent when an exchange stalled.
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
}
FLIGHT_RECORD = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"


def watchdog_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of torch's NCCL watchdog, unless already set."""
    return {name: value for name, value in WATCHDOG.items() if not variables.get(name)}


def interface_in_use(device: str, variables: Mapping[str, str]) -> str:
    """Return the interface of the backend, without NCCL's mark for an exact name."""
    if device == "cpu":
        return variables.get(GLOO, "")
    return variables.get(NCCL, "").removeprefix("=")


def fabric_of(world: World, variables: Mapping[str, str], adapters: Path = ADAPTERS) -> str:
    """Return the adapters NCCL sends over, such as "InfiniBand mlx5_0 port 1 (…)", or ""."""
    across = world.size > world.local_size
    if not across or world.device == "cpu" or variables.get("NCCL_IB_DISABLE") == "1":
        return ""
    return ", ".join(active_adapters(adapters))


def fabric_port(fabric: str) -> str:
    """Return the first port of a fabric as the monitor names it, such as `mlx5_0:1`; or ""."""
    found = re.match(r"\w+ (\S+) port (\S+) ", fabric)
    return f"{found[1]}:{found[2]}" if found else ""


def active_adapters(adapters: Path = ADAPTERS) -> Iterator[str]:
    """Yield every port of an InfiniBand or RoCE adapter that is up, with its rate."""
    for port in sorted(adapters.glob("*/ports/*")):
        if ACTIVE not in _read(port / "state"):
            continue
        kind = "InfiniBand" if _read(port / "link_layer") == "InfiniBand" else "RoCE"
        yield f"{kind} {port.parts[-3]} port {port.name} ({_read(port / 'rate')})"


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace").strip()
    except OSError:
        return ""
