"""What a machine says about itself before a launch; it runs there, without importing torch.

    python -m unisono.launch.probe_server

One question a line of standard input, one answer a line of standard output, both JSON. It ends
with its input.
"""

import hashlib
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

import unisono
from unisono.config.load import load_settings
from unisono.config.settings import Settings
from unisono.corpus.reader import Corpus, open_corpus
from unisono.errors import UnisonoError
from unisono.launch.probe_client import (
    Answer,
    ClockReading,
    Connect,
    Connected,
    Describe,
    Facts,
    Failed,
    Listen,
    Listening,
    Question,
    Tell,
    Trouble,
)
from unisono.models.settings import parameter_count

CONNECT_SECONDS = 5.0
# Weights, two moments of Adam and a moving average, of four bytes each.
BYTES_PER_PARAMETER = 16
ROOM_BESIDES = 100_000_000


def converse(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer questions until there are no more."""
    for line in questions:
        question = msgspec.json.decode(line, type=Question)
        answers.write(msgspec.json.encode(answer_to(question)) + b"\n")
        answers.flush()


def answer_to(question: Question) -> Answer:
    """Answer one question; what cannot be answered is an answer, too."""
    try:
        match question:
            case Tell():
                return ClockReading(time.time())
            case Describe():
                return describe(question)
            case Listen():
                return listen(question)
            case Connect():
                return connect(question)
    except UnisonoError as error:
        return Failed(error.what, error.where, error.fix)
    except OSError as error:
        return Failed(str(error))


def describe(question: Describe) -> Facts:
    """Gather everything that has to be the same everywhere, and what a run needs here."""
    try:
        os.chdir(question.directory)
    except OSError as error:
        what = f"there is no directory {question.directory}: {error.strerror}"
        fix = "make it there with config and corpus, or name another one with --directory"
        return Facts(troubles=(Trouble(what, fix=fix),))
    facts = Facts(
        host=socket.gethostname(),
        address=os.environ.get("SSH_CONNECTION", "").split()[2:3],
        python=".".join(platform.python_version_tuple()[:2]),
        unisono=_version("unisono"),
        code=hash_of_code(Path(unisono.__file__).parent),
        torch=_version("torch"),
    )
    try:
        settings = load_settings(Path(question.config), question.overrides)
        facts = msgspec.structs.replace(facts, settings=msgspec.to_builtins(settings))
        corpus = open_corpus(Path(settings.corpus.directory))
    except UnisonoError as error:
        trouble = Trouble(error.what, error.where, error.fix)
        return msgspec.structs.replace(facts, troubles=(trouble,))
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
    """Return what a checkpoint takes at most."""
    manifest = corpus.manifest
    count = parameter_count(settings.model, manifest.vocabulary, manifest.source_vocabulary)
    return count * BYTES_PER_PARAMETER


def listen(question: Listen) -> Listening:
    """Take the port where the agents will meet, and show the token to whoever calls."""
    # It is held until the conversation ends, so that nobody else takes it meanwhile.
    server = socket.create_server(("", question.port))

    def answer() -> None:
        while True:
            caller, _ = server.accept()
            with caller, suppress(OSError):
                caller.sendall(question.token.encode())
                caller.recv(1)  # the caller hangs up first: the port stays free of its traces

    threading.Thread(target=answer, daemon=True).start()
    return Listening()


def connect(question: Connect) -> Connected:
    """Call the machine where the agents will meet; say by which address it was found."""
    found = socket.getaddrinfo(question.address, question.port, type=socket.SOCK_STREAM)
    # torch's store is asked for IPv4 first.
    *_, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    number = str(place[0])
    with socket.create_connection((number, question.port), CONNECT_SECONDS) as caller:
        heard = caller.recv(len(question.token)).decode(errors="replace")
        return Connected(number, is_right=heard == question.token)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _room(settings: Settings, corpus: Corpus) -> dict[str, Any]:
    run = Path(settings.run).absolute()
    existing = next(path for path in (run, *run.parents) if path.is_dir())
    # Those that are kept, the best, and the one being written.
    checkpoints = settings.checkpoint.keep + 2
    return {
        "run": str(run),
        "free_bytes": shutil.disk_usage(existing).free,
        "needed_bytes": checkpoints * checkpoint_bytes(settings, corpus) + ROOM_BESIDES,
        "troubles": tuple(_unwritable(run, existing)),
    }


def _unwritable(run: Path, existing: Path) -> Iterator[Trouble]:
    # Trying says more than permissions do: root may write everywhere, and yet not here.
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        yield Trouble(
            f"the run directory {run} cannot be written: {error.strerror}",
            str(existing),
            "give permission there, or choose another directory with --set run=…",
        )


if __name__ == "__main__":
    converse(sys.stdin.buffer, sys.stdout.buffer)
