"""What a laboratory needs of the machine it is made on."""

import os
import shutil
import subprocess
from collections.abc import Iterator

from unisono.errors import ConfigError
from unisono.lab.commands import Argv
from unisono.lab.plan import LabPlan

PACKAGES = {
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
    """Return PATH with the directories that hold `ip` and `tc` for everybody but root."""
    present = os.environ.get("PATH", "").split(os.pathsep)
    extra = [directory for directory in SYSTEM_DIRECTORIES if directory not in present]
    return os.pathsep.join([*filter(None, present), *extra])


def check_requirements(plan: LabPlan) -> None:
    """Raise an error that says what is missing on this machine; change nothing."""
    _check_root()
    _check_tools()
    _check_kernel(plan)


def _check_root() -> None:
    if os.geteuid() != 0:
        raise ConfigError(
            "a laboratory can only be made by root: it creates machines and networks",
            where=f"user {os.geteuid()}",
            fix="write `sudo` before the command or, where users may create namespaces, "
            "`unshare --map-root-user`",
        )


def _check_tools() -> None:
    path = search_path()
    missing = [tool for tool in PACKAGES if shutil.which(tool, path=path) is None]
    if missing:
        packages = dict.fromkeys(PACKAGES[tool] for tool in missing)
        raise ConfigError(
            f"programs are missing: {', '.join(missing)}",
            where=f"PATH {path}",
            fix=f"on Debian and Ubuntu: apt-get install {' '.join(packages)}",
        )


def _check_kernel(plan: LabPlan) -> None:
    refusal = _refusal(())
    if refusal:
        raise ConfigError(
            f"the kernel makes no namespaces for us: {refusal}",
            where="unshare",
            fix="in a container: give it more rights, such as docker run --privileged",
        )
    for module, purpose, command in _features(plan):
        refusal = _refusal(command)
        if refusal:
            raise ConfigError(
                f"this kernel lacks {module}, which {purpose} needs: {refusal}",
                where="the running kernel",
                fix=f"`modprobe {module}` if there is such a module (some systems have it in a "
                "package of its own: linux-modules-extra, kernel-modules-extra); if not, "
                "there is no way around it on this machine",
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
    """Return what the kernel says against `command` in a network that then vanishes."""
    argv = ("unshare", "--net", "--uts", "--mount", "--pid", "--fork", *(command or ("true",)))
    done = subprocess.run(
        argv,
        env={**os.environ, "PATH": search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or "no reason given"
