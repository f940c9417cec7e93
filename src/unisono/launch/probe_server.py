"""The probe server: it runs on a machine before a launch and describes it. No torch here.

    python -m unisono.launch.probe_server

Each line of standard input is a request, each line of standard output a reply, both JSON. The
server ends with its input.
"""

import hashlib
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

import unisono
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.errors import UnisonoError
from unisono.launch.probe_client import (
    ClockReading,
    Connect,
    Connected,
    Describe,
    Facts,
    Failed,
    Listen,
    Listening,
    ProbeReply,
    ProbeRequest,
    Problem,
    ReadClock,
)
from unisono.launch.slots import gpus_for
from unisono.models.settings import parameter_count
from unisono.nvidia import DRIVER_FIX, read_driver
from unisono.secure.channel import Channel, StrangerError, dial
from unisono.secure.server import SecureServer
from unisono.source_address import source_address

PEER_CONNECT_SECONDS = 5.0
# Weights, two moments of Adam and a moving average, four bytes each.
BYTES_PER_PARAMETER = 16
FURTHER_BYTES = 100_000_000


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until there are no more."""
    for line in requests:
        request = msgspec.json.decode(line, type=ProbeRequest)
        replies.write(msgspec.json.encode(reply_to(request)) + b"\n")
        replies.flush()


def reply_to(request: ProbeRequest) -> ProbeReply:
    """Answer one request; a failure is a reply, too."""
    try:
        match request:
            case ReadClock():
                return ClockReading(time.time())
            case Describe():
                return describe(request)
            case Listen():
                return listen(request)
            case Connect():
                return connect(request)
    except UnisonoError as error:
        return Failed(error.what, error.where, error.fix)
    except OSError as error:
        return Failed(str(error))


def describe(request: Describe) -> Facts:
    """Return everything that must be the same everywhere, and what a run needs here."""
    try:
        os.chdir(request.directory)
    except OSError as error:
        what = f"there is no directory {request.directory}: {error.strerror}"
        fix = "create it there with config and corpus, or choose another with --directory"
        return Facts(problems=(Problem(what, fix=fix),))
    driver = read_driver()
    facts = Facts(
        host=socket.gethostname(),
        address=os.environ.get("SSH_CONNECTION", "").split()[2:3],
        python=".".join(platform.python_version_tuple()[:2]),
        unisono=_version("unisono"),
        code=hash_of_code(Path(unisono.__file__).parent),
        torch=_version("torch"),
    )
    try:
        settings = load_settings(Path(request.config), request.overrides)
        facts = msgspec.structs.replace(
            facts,
            settings=msgspec.to_builtins(settings),
            gpus=gpus_for(settings.device, driver, os.environ),
        )
        if driver.trouble and settings.device != "cpu":
            problem = Problem(driver.trouble, "device", DRIVER_FIX)
            return msgspec.structs.replace(facts, problems=(problem,))
        corpus = open_corpus(Path(settings.corpus.directory))
    except UnisonoError as error:
        problem = Problem(error.what, error.where, error.fix)
        return msgspec.structs.replace(facts, problems=(problem,))
    return msgspec.structs.replace(
        facts,
        corpus=corpus.fingerprint[:16],
        pairs=corpus.manifest.splits["train"].pairs,
        **_room(settings, corpus),
    )


def hash_of_code(package: Path) -> str:
    """Return a hash of the modules of a package: two checkouts may share a version."""
    total = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        total.update(f"{path.relative_to(package)}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def checkpoint_bytes(settings: Settings, corpus: Corpus) -> int:
    """Return the most bytes a checkpoint takes."""
    manifest = corpus.manifest
    count = parameter_count(settings.model, manifest.vocabulary, manifest.source_vocabulary)
    return count * BYTES_PER_PARAMETER


def listen(request: Listen) -> Listening | Failed:
    """Listen on the port of the rendezvous, where the others look for this machine."""
    ssh = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    towards = [source_address(address) for address in (*request.addresses, *ssh)]
    own = dict.fromkeys(address for address in towards if address)
    # A machine's own name may mean loopback there, where no other machine comes.
    outside = [address for address in own if not ip_address(address).is_loopback]
    if not own:
        return Failed(f"this machine has no route to {', '.join(request.addresses)}")
    for address in outside or own:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # Held until this server ends, so that no other program takes the port meanwhile.
        server = socket.create_server((address, request.port), family=family)
        SecureServer(server, request.token.encode(), _hold, lambda _: None)
    return Listening()


def _hold(channel: Channel) -> None:
    channel.receive(PEER_CONNECT_SECONDS)  # the caller closes first: no TIME_WAIT on our port


def connect(request: Connect) -> Connected:
    """Connect to the machine of the rendezvous; return the address under which it answers."""
    found = socket.getaddrinfo(request.address, request.port, type=socket.SOCK_STREAM)
    # torch's store prefers IPv4.
    *_, target = min(found, key=lambda one: one[0] != socket.AF_INET)
    address = str(target[0])
    try:
        endpoint, secret = (address, request.port), request.token.encode()
        channel = dial(endpoint, secret, PEER_CONNECT_SECONDS)
    except StrangerError:
        return Connected(address, is_right=False)
    source = channel.source
    channel.close()
    return Connected(address, is_right=True, source=source)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _room(settings: Settings, corpus: Corpus) -> dict[str, Any]:
    run = Path(settings.run).absolute()
    existing = next(path for path in (run, *run.parents) if path.is_dir())
    # Those that are kept, the best one, and the one being written.
    checkpoints = settings.checkpoint.keep + 2
    return {
        "run": str(run),
        "free_bytes": shutil.disk_usage(existing).free,
        "needed_bytes": checkpoints * checkpoint_bytes(settings, corpus) + FURTHER_BYTES,
        "problems": tuple(_unwritable(run, existing)),
    }


def _unwritable(run: Path, existing: Path) -> Iterator[Problem]:
    # Trying says more than permissions do: even root cannot write everywhere.
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        yield Problem(
            f"cannot write the run directory {run}: {error.strerror}",
            str(existing),
            "change its permissions, or choose another directory with --set run=…",
        )


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
