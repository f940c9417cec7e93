"""The commands a laboratory consists of, and what they need of the machine they run on.

They are plain util-linux and iproute2. Nothing here gets a name that the host could see. A
namespace lives as long as a process in it, and the first process of each waits for the end of
its standard input, which only the laboratory holds open. So however the laboratory ends, the
kernel cleans up after it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from unisono.errors import ConfigError
from unisono.lab.plan import INTERFACE, LabPlan, Shape, address_of, hosts_file, name_of

SWITCH = "switch"
# How much a full link queues before it drops packets.
QUEUE_SECONDS, QUEUE_BYTES = 0.05, 64 * 1024

SWITCH_SCRIPT = """\
echo $$
exec cat"""

# The first line must come before the second: in the old /proc, this process still has the id
# under which the host knows it. /proc and /sys are then those of the new machine. /tmp is
# covered only while /etc/hosts is made. The process that keeps running must not leave zombies
# behind, so it ignores the end of orphans.
MACHINE_SCRIPT = """\
read number rest < /proc/self/stat
mount -t proc proc /proc
mount -t sysfs sysfs /sys
hostname "$1"
mount -t tmpfs tmpfs /tmp
echo "$2" > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
umount /tmp
ip link set lo up
echo "$number"
exec env --ignore-signal=CHLD cat"""

Argv = tuple[str, ...]


def make_switch() -> Argv:
    """Return the command that holds the switch's network; it prints its process id."""
    return ("unshare", "--net", "sh", "-ec", SWITCH_SCRIPT)


def make_machine(node: int, nodes: int) -> Argv:
    """Return the command that is a machine; it prints its process id when it is up.

    When it ends, all processes of the machine are killed.
    """
    return (
        *("unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child"),
        *("sh", "-ec", MACHINE_SCRIPT, "machine", name_of(node), hosts_file(nodes)),
    )


def set_up_switch(switch: str) -> list[Argv]:
    """Return the commands that add a bridge to the switch's network."""
    return [
        _in_network(switch, "ip", "link", "add", SWITCH, "type", "bridge"),
        _in_network(switch, "ip", "link", "set", SWITCH, "up"),
    ]


def connect(node: int, switch: str, machine: str) -> list[Argv]:
    """Return the commands that connect a node's interface to the switch by a cable."""
    port = port_of(node)
    link = ("ip", "link")
    return [
        _in_network(
            *(switch, *link, "add", port, "type", "veth"),
            *("peer", "name", INTERFACE, "netns", machine),
        ),
        _in_network(switch, *link, "set", port, "addrgenmode", "none", "master", SWITCH, "up"),
        _in_network(
            machine, "ip", "address", "add", f"{address_of(node)}/24", "dev", INTERFACE
        ),
        _in_network(machine, *link, "set", INTERFACE, "addrgenmode", "none", "up"),
    ]


def set_carrier(node: int, switch: str, *, up: bool) -> Argv:
    """Return the command that plugs in a node's cable, or unplugs it."""
    state = "up" if up else "down"
    return _in_network(switch, "ip", "link", "set", port_of(node), state)


def shape_sent(machine: str, shape: Shape, *, anew: bool = False) -> list[Argv]:
    """Return the commands that limit what a machine sends; `anew` if it has limits already."""
    return [_in_network(machine, *command) for command in _shaping(INTERFACE, shape, anew)]


def shape_received(node: int, switch: str, shape: Shape, *, anew: bool = False) -> list[Argv]:
    """Return the commands that limit what a machine receives."""
    return [_in_network(switch, *command) for command in _shaping(port_of(node), shape, anew)]


def enter(
    machine: str,
    cores: Sequence[int],
    directory: str,
    argv: Sequence[str],
    *,
    at_terminal: bool = False,
) -> Argv:
    """Return the command that runs `argv` in a directory of a machine, on some cores.

    `nsenter` waits outside for the program. A terminal sends Ctrl-C to both, but only the
    program may react to it.
    """
    outside = ("env", "--ignore-signal=INT,QUIT") if at_terminal else ()
    inside = ("--default-signal=INT,QUIT",) if at_terminal else ()
    return (
        *(*outside, "nsenter", "--target", machine, "--net", "--uts", "--mount", "--pid"),
        *("env", f"--chdir={directory}", *inside),
        *("taskset", "--cpu-list", ",".join(map(str, cores)), *argv),
    )


def cores_of(node: int, nodes: int, cores: Sequence[int]) -> Sequence[int]:
    """Return the cores of a node: each has its own, if there are enough."""
    if len(cores) < nodes:
        return [cores[node % len(cores)]]
    return cores[node * len(cores) // nodes : (node + 1) * len(cores) // nodes]


def port_of(node: int) -> str:
    """Return the name of the switch's end of a node's cable."""
    return f"port{node}"


def _in_network(process: str, *argv: str) -> Argv:
    return ("nsenter", "--target", process, "--net", *argv)


def _shaping(interface: str, shape: Shape, anew: bool) -> list[Argv]:
    replace = ("tc", "qdisc", "replace", "dev", interface)
    if anew and shape == Shape():
        return [(*replace, "root", "noqueue")]
    commands: list[Argv] = []
    parent: Argv = ("root",)
    if shape.delay_seconds:
        microseconds = f"{shape.delay_seconds * 1e6:.0f}us"
        # Room for all packets in flight.
        delay = ("netem", "delay", microseconds, "limit", "100000")
        commands.append((*replace, *parent, "handle", "1:", *delay))
        parent = ("parent", "1:1")
    if shape.bits_per_second:
        queue = max(QUEUE_BYTES, int(shape.bits_per_second / 8 * QUEUE_SECONDS))
        limits = (
            *("rate", f"{shape.bits_per_second:.0f}bit", "burst", str(shape.burst_bytes)),
            *("limit", str(shape.burst_bytes + queue)),
        )
        commands.append((*replace, *parent, "handle", "10:", "tbf", *limits))
    return commands


DEBIAN_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "taskset": "util-linux",
    "mount": "mount",
    "hostname": "hostname",
}
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def search_path() -> str:
    """Return PATH with the system directories, which only root usually has in it."""
    present = os.environ.get("PATH", "").split(os.pathsep)
    extra = [directory for directory in SYSTEM_DIRECTORIES if directory not in present]
    return os.pathsep.join([*filter(None, present), *extra])


def check_requirements(plan: LabPlan) -> None:
    """Raise an error if this machine lacks something; change nothing."""
    _check_root()
    _check_tools()
    _check_kernel(plan)


def _check_root() -> None:
    if os.geteuid() != 0:
        raise ConfigError(
            "only root can make a laboratory: it creates namespaces and networks",
            where=f"user {os.geteuid()}",
            fix="write `sudo` before the command or, where users may create namespaces, "
            "`unshare --map-root-user`",
        )


def _check_tools() -> None:
    path = search_path()
    missing = [tool for tool in DEBIAN_PACKAGES if shutil.which(tool, path=path) is None]
    if missing:
        packages = dict.fromkeys(DEBIAN_PACKAGES[tool] for tool in missing)
        raise ConfigError(
            f"programs are missing: {', '.join(missing)}",
            where=f"PATH {path}",
            fix=f"on Debian and Ubuntu: apt-get install {' '.join(packages)}",
        )


def _check_kernel(plan: LabPlan) -> None:
    refusal = _refusal(())
    if refusal:
        raise ConfigError(
            f"the kernel does not let us create namespaces: {refusal}",
            where="unshare",
            fix="in a container, give it more privileges, such as docker run --privileged",
        )
    for module, purpose, command in _features(plan):
        refusal = _refusal(command)
        if refusal:
            raise ConfigError(
                f"this kernel lacks {module}, which {purpose} needs: {refusal}",
                where="the running kernel",
                fix=f"run `modprobe {module}`; on some systems it is in an extra package "
                "(linux-modules-extra, kernel-modules-extra)",
            )


def _features(plan: LabPlan) -> Iterator[tuple[str, str, Argv]]:
    device = ("ip", "link", "add", "name", "one", "type")
    yield "bridge", "every laboratory", (*device, "bridge")
    yield "veth", "every laboratory", (*device, "veth", "peer", "name", "two")
    shapes = [plan.shape_sent(node) for node in range(plan.nodes)]
    qdisc = ("tc", "qdisc", "add", "dev", "lo", "root")
    if any(shape.bits_per_second for shape in shapes):
        limits = ("rate", "1mbit", "burst", "9kb", "latency", "9ms")
        yield "sch_tbf", "a link with a limit", (*qdisc, "tbf", *limits)
    if any(shape.delay_seconds for shape in shapes):
        yield "sch_netem", "--delay", (*qdisc, "netem", "delay", "1ms")


def _refusal(command: Argv) -> str:
    """Return why the kernel refuses `command` in a temporary network, or ""."""
    argv = ("unshare", "--net", "--uts", "--mount", "--pid", "--fork", *(command or ("true",)))
    done = subprocess.run(
        argv,
        env={**os.environ, "PATH": search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or "no reason given"
