"""InfiniBand and RoCE ports, whose traffic the counters of interfaces leave out.

In samples, a port is an interface with a name such as `mlx5_0:1`.
"""

from pathlib import Path

from unisono.records.monitor_events import NetworkInterface, Traffic

FABRIC_PORTS = Path("/sys/class/infiniband")
BYTES_PER_WORD = 4  # the unit of the counters of data
ERROR_COUNTERS = ("symbol_error", "port_rcv_errors", "link_error_recovery", "link_downed")
DROP_COUNTERS = ("port_xmit_discards",)


def fabric_traffic(root: Path = FABRIC_PORTS) -> dict[str, Traffic]:
    """Return the traffic of every port that has carried any."""
    found = {}
    for name, port in _ports(root).items():
        sent, received = (
            _number(port / f"counters/port_{way}_data") for way in ("xmit", "rcv")
        )
        if sent or received:
            found[name] = Traffic(
                received=received * BYTES_PER_WORD,
                sent=sent * BYTES_PER_WORD,
                errors=sum(_number(port / "counters" / one) for one in ERROR_COUNTERS),
                drops=sum(_number(port / "counters" / one) for one in DROP_COUNTERS),
            )
    return found


def fabric_links(root: Path = FABRIC_PORTS) -> dict[str, NetworkInterface]:
    """Return every port that is up, with its rate."""
    return {
        name: NetworkInterface(up=True, mbit_per_s=_mbit(port))
        for name, port in _ports(root).items()
        if "ACTIVE" in _text(port / "state")
    }


def _ports(root: Path) -> dict[str, Path]:
    return {f"{port.parts[-3]}:{port.name}": port for port in sorted(root.glob("*/ports/*"))}


def _mbit(port: Path) -> int:
    """Read a rate such as "100 Gb/sec (4X EDR)"."""
    number = _text(port / "rate").partition(" ")[0]
    return int(float(number) * 1000) if number.replace(".", "", 1).isdecimal() else 0


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdecimal() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace").strip()
    except OSError:
        return ""
