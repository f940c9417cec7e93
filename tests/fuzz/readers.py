"""What reads files that may be damaged, as a user would have it read: by the command line."""

import io
import json
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutations import mutate_file
from unisono import atomic, cli
from unisono.printable import LAYOUT, guard_output, printable

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "golden"
HANG_SECONDS = 60.0
Arguments = Callable[[Path], Sequence[str]]


class HangError(BaseException):
    """A command took longer than any damaged file of this size explains."""


@dataclass(frozen=True)
class Reader:
    """A sample of files, the commands that read them, and which files carry checksums.

    Where the checksums in the file `rehash` are made to match, damage reaches what is behind
    them; where they are not, damage to files other than `checked_by` must be refused. Only
    files below `damaged` are damaged. Commands read `given`, or the file it names after "@".
    `cost` is how many cases of other readers a case takes the time of. `at_terminal`: commands
    that copy what they do not understand into files filter it at a terminal only.
    """

    sample: Path
    commands: tuple[Arguments, ...]
    given: str = ""
    rehash: str = ""
    checked_by: str = ""
    damaged: str = "."
    cost: int = 1
    at_terminal: bool = False

    def input_in(self, copy: Path) -> bytes:
        """Return what the commands read from standard input."""
        if not self.given.startswith("@"):
            return self.given.encode()
        path = copy / self.given[1:]
        return path.read_bytes() if path.is_file() else b""


@dataclass(frozen=True)
class Outcome:
    """What a command did with a damaged file."""

    seed: int
    file: str
    command: str
    crashed: str = ""
    accepted: bool = False
    obeyed: bool = False

    @property
    def is_bad(self) -> bool:
        return bool(self.crashed) or self.accepted or self.obeyed


def command(*words: str) -> Arguments:
    """Return a command line; `@` stands for the damaged copy."""
    return lambda path: [word.replace("@", str(path)) for word in words]


REPORT = command("report", "@")
SHOW = command("show", "@")
SHOW_CHECKPOINT = command("show", "@/step-0000002")
SHOW_JSON = command("show", "@", "--json")
WATCH = command("watch", "@", "--once")
COMPARE = command("compare", "@", "@")
TRANSLATE = command("translate", "--model", "@", "--beam", "1", "--workers", "1")
SCORE = command("score", "@/output.de", "@/test.de")
LIST_ENTRY = command("corpora", "list", "@/entry.toml")
IMPORT_LOG = command("import", "openseq2seq", "@/log.txt", "--to", "@/run")
IMPORT_CONFIG = command("import", "config", "@/config.py", "--to", "@/new.toml")
GET = command("corpora", "get", "entry.toml", "--from", "given", "--offline", "--to", "got")
IMPORT_EVENTS = command("import", "tensorboard", "events", "--to", "run")
TRAIN_ON = command("train", "config.toml", "--set", "train.max_steps=4")
PREPARE_TEXT = command("prepare", "config.toml", "--workers", "1")
AVERAGE = command("average", "run", "--to", "bundle")
REPORT_MD = command("report", "@", "--md")
REPORT_JSON = command("report", "@", "--json")
TRAIN = command("train", "@/config.toml", "--set", "corpus.directory=@/none")
PREPARE = command("prepare", "@/config.toml", "--set", "corpus.directory=@/none")


def damaged_copy(reader: Reader, target: Path, draw: random.Random) -> tuple[str, bool]:
    """Copy the sample to `target` and damage a file of it; return which, and if it changed."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(reader.sample, target)
    below = (target / reader.damaged).rglob("*")
    files = sorted(path for path in below if path.is_file() and path.suffix != ".lock")
    path = draw.choice(files)
    before = path.read_bytes()
    mutate_file(path, draw)
    changed = not path.is_file() or path.read_bytes() != before
    if reader.rehash and path.is_file() and path.stat().st_size < 1 << 24:
        _make_hashes_match(path.with_name(reader.rehash), path)
    return str(path.relative_to(target)), changed


def _make_hashes_match(manifest: Path, path: Path) -> None:
    if path == manifest or not manifest.is_file():
        return
    content = json.loads(manifest.read_text())
    entry = content.get("files", {}).get(path.name)
    if isinstance(entry, dict):
        made = atomic.written(path)
        entry["bytes"], entry["sha256"] = made.bytes, made.sha256
        manifest.write_text(json.dumps(content))


def read_damaged(reader: Reader, target: Path, seed: int) -> list[Outcome]:
    """Damage a copy of the sample as `seed` says, and have it read by every command."""
    file, changed = damaged_copy(reader, target, random.Random(seed))
    hashed = bool(reader.checked_by) and changed and not file.endswith(reader.checked_by)
    outcomes = []
    for words in (list(make(target)) for make in reader.commands):
        with chdir(target):
            given = reader.input_in(target)
            code, shown, crashed = run(words, given, at_terminal=reader.at_terminal)
        obeyed = printable(shown, LAYOUT) != shown
        outcomes.append(Outcome(seed, file, words[0], crashed, hashed and code == 0, obeyed))
    return outcomes


def run(
    words: Sequence[str], given: bytes = b"", *, at_terminal: bool = False
) -> tuple[int, str, str]:
    """Run a command line in this process; return its code, all it printed, and its traceback.

    The entry is that of the program: its filter of the output, its handling of errors.
    """
    output = _Kept()
    output.is_terminal = at_terminal
    with _streams(words, given, output):
        try:
            code, crashed = cli._run(), ""
            sys.stdout.flush(), sys.stderr.flush()
        except (Exception, HangError) as error:  # noqa: BLE001
            code, crashed = -1, _where(error)
    return code, output.getvalue().decode("utf-8", "replace"), crashed


class _Kept(io.BytesIO):
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal

    def close(self) -> None:
        """Stay readable when the stream above is gone."""


@contextmanager
def _streams(words: Sequence[str], given: bytes, output: _Kept) -> Iterator[None]:
    kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["unisono", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    sys.stdout = sys.stderr = io.TextIOWrapper(output, "utf-8", write_through=True)
    guard_output()
    before = signal.signal(signal.SIGALRM, _Limit())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.argv, sys.stdin, sys.stdout, sys.stderr = kept


class _Limit:
    """Ends what takes too long; time in which it only waited for a core does not count."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _waited_for_a_core()
        signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)

    def __call__(self, *_: object) -> None:
        waited = _waited_for_a_core() - self._waited
        left = HANG_SECONDS - (time.monotonic() - self._began - waited)
        if left < 0.1:
            raise HangError(f"not done after {HANG_SECONDS:g} s")
        signal.setitimer(signal.ITIMER_REAL, left)


def _waited_for_a_core() -> float:
    """Return the seconds for which this thread could have run, but did not."""
    with suppress(OSError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/unisono/" in f.filename]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {str(error)[:100]}{place}"
