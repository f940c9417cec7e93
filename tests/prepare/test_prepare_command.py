"""The real command: what it says about bad input, and how it ends when it is ended."""

import gzip
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import zstandard
from preparing import names, sentences, small_data, write

from unisono.corpus import open_corpus

pytestmark = pytest.mark.ranks

CONFIG = """
[data]
[[data.train]]
{train}
[data.valid]
source = "text/valid.en"
target = "text/valid.de"
[corpus]
directory = "made/corpus"
vocabulary = 100
{corpus}
[train]
max_steps = 1
"""
FILES = 'source = "text/train.en{ending}"\ntarget = "text/train.de{ending}"'


def command(home, *options, train="", corpus=""):
    config = CONFIG.format(train=train or FILES.format(ending=""), corpus=corpus)
    (home / "my.toml").write_text(config)
    return [sys.executable, "-m", "unisono", "prepare", "my.toml", *map(str, options)]


def run(home, *options, **tables):
    return subprocess.run(
        command(home, *options, **tables),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path):
    small_data(tmp_path / "text")
    return tmp_path


def test_the_summary_fits_80_columns_and_names_every_reason(home):
    source, target = sentences(400, 1), sentences(400, 2)
    source[3], target[7], source[8] = "", source[7], "да, конечно, да, конечно"
    write(home / "text" / "train.en", source)
    write(home / "text" / "train.de", target)
    done = run(home)
    assert done.returncode == 0, done.stderr
    first, *table = done.stderr.splitlines()
    assert first.startswith("corpus made/corpus: 397 training pairs (3 dropped)")
    assert "(of 400 training pairs)" in table[0]
    assert [line.split("  ")[0] for line in table if not line.startswith("    | ")] == [
        "dropped",
        "empty",
        "identical",
        "wrong script",
    ]
    assert "    | да, конечно, да, конечно" in table
    assert max(map(len, table)) < 80
    assert run(home).stderr == "corpus made/corpus is up to date\n"


def test_where_the_size_of_the_vocabulary_comes_from_is_told(home):
    done = run(home, "--set", "corpus.vocabulary=5000")
    assert "too small for a vocabulary of 5,000 pieces" in done.stderr
    (home / "made" / "corpus" / "pieces.model").rename(home / "given.model")
    shutil.rmtree(home / "made" / "corpus")
    given = run(home, corpus='pieces_model = "given.model"')
    assert " (from pieces_model), from" in given.stderr
    assert "asked for" not in given.stderr
    again = run(home, "--set", "corpus.vocabulary=70", corpus='pieces_model = "given.model"')
    assert "up to date" in again.stderr


def test_adding_a_source_is_told(home):
    assert run(home).returncode == 0
    write(home / "text" / "more.tsv", [f"the {line}\t{line}" for line in sentences(60, 8)])
    more = FILES.format(ending="") + '\n[[data.train]]\ntsv = "text/more.tsv"'
    done = run(home, train=more)
    assert done.returncode == 0, done.stderr
    assert "1 source reused, 1 added; made/corpus keeps its vocabulary" in done.stderr
    lighter = run(home, train=more + "\nweight = 0.5")
    assert lighter.stderr == "corpus made/corpus is up to date; only its weights changed\n"


def unequal(text):
    write(text / "train.en", sentences(399, 1))


def empty(text):
    (text / "train.de").write_bytes(b"")


def blank(text):
    write(text / "train.de", [" \t"] * 400)


def latin1(text):
    (text / "train.de").write_bytes(b"gut\nw\xe4re\n" * 200)


def nul(text):
    (text / "train.de").write_bytes(b"gut\n" * 399 + b"da\x00nach\n")


def ten_megabytes(text):
    (text / "train.de").write_bytes(b"gut\n" * 399 + b"x" * 10_000_000 + b"\n")


def bad_validation(text):
    (text / "valid.de").write_bytes(b"gut\n" * 9 + b"w\xe4re\n")


def cut_off(pack, ending):
    def spoil(text):
        for side in ("en", "de"):
            whole = pack((text / f"train.{side}").read_bytes())
            end = len(whole) - 9 if side == "de" else len(whole)
            (text / f"train.{side}{ending}").write_bytes(whole[:end])

    return spoil


def few_columns(text):
    write(text / "train.tsv", ["a\tb"] * 7 + ["a b"] + ["a\tb"] * 5)


def foreign_pieces(text):
    (text / "pieces.model").write_bytes(b"not a model")


BAD_INPUT = {
    "unequal": (unequal, {}, "train.en has 399 lines; text/train.de has 400", "number 1"),
    "empty file": (empty, {}, "text/train.de is empty", "number 1"),
    "empty side": (
        blank,
        {},
        "no training pairs are left after cleaning (empty: 4",
        "train",
    ),
    "not UTF-8": (latin1, {}, "byte 0xe4 is not UTF-8", "text/train.de, line 2"),
    "NUL": (nul, {}, "a NUL byte", "text/train.de, line 400"),
    "long line": (ten_megabytes, {}, "a line of 10000000 bytes", "text/train.de, line 400"),
    "valid": (bad_validation, {}, "byte 0xe4 is not UTF-8", "text/valid.de, line 10"),
    "gz": (
        cut_off(gzip.compress, ".gz"),
        {"train": FILES.format(ending=".gz")},
        "text/train.de.gz cannot be read",
        "text/train.de.gz, after line",
    ),
    "xz": (
        cut_off(lzma.compress, ".xz"),
        {"train": FILES.format(ending=".xz")},
        "text/train.de.xz cannot be read",
        "text/train.de.xz, after line",
    ),
    "zst": (
        cut_off(zstandard.compress, ".zst"),
        {"train": FILES.format(ending=".zst")},
        "text/train.de.zst cannot be read: the compressed data is cut off",
        "text/train.de.zst, after line",
    ),
    "columns": (
        few_columns,
        {"train": 'tsv = "text/train.tsv"'},
        "1 columns, but the text is in columns 1 and 2",
        "text/train.tsv, line 8",
    ),
    "pieces": (
        foreign_pieces,
        {"corpus": 'pieces_model = "text/pieces.model"'},
        "not a SentencePiece model",
        "text/pieces.model",
    ),
}


@pytest.mark.parametrize(
    ("spoil", "tables", "what", "where"), BAD_INPUT.values(), ids=BAD_INPUT
)
def test_bad_input_is_explained_with_code_3_and_leaves_nothing(
    home, spoil, tables, what, where
):
    spoil(home / "text")
    done = run(home, **tables)
    assert done.returncode == 3, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert what in lines[0]
    assert lines[1].startswith("  where: ")
    assert where in lines[1]
    assert lines[2].startswith("  fix:   ")
    assert len(lines) == 3
    assert names(home / "made") == []


@pytest.mark.parametrize("spoil", [latin1, nul, ten_megabytes, few_columns])
def test_invalid_lines_are_dropped_if_told(home, spoil):
    spoil(home / "text")
    tables = {"train": 'tsv = "text/train.tsv"'} if spoil is few_columns else {}
    corpus = "drop_duplicates = false\ndrop_overlap = false\nmax_length_ratio = 99.0"
    write(
        home / "text" / "train.en", [f"{n} {line}" for n, line in enumerate(sentences(400, 1))]
    )
    done = run(home, "--invalid", "drop", corpus=corpus, **tables)
    assert done.returncode == 0, done.stderr
    dropped = open_corpus(home / "made" / "corpus").manifest.dropped
    assert len(dropped) == 1
    again = run(home, corpus=corpus, **tables)
    assert "up to date" in again.stderr


def test_a_directory_that_may_not_be_written_is_explained(home):
    (home / "made").write_text("a file")
    done = run(home)
    assert done.returncode == 3
    assert "error: made/corpus cannot be written" in done.stderr
    assert "  where: corpus.directory" in done.stderr


def numbered(count, seed):
    texts = sentences(200, seed)
    return "".join(f"{n} {texts[n % 200]}\n" for n in range(count)).encode()


@pytest.fixture
def large(tmp_path):
    """Text that is large enough for workers to be started."""
    small_data(tmp_path / "text")
    for seed, side in enumerate(("en", "de")):
        (tmp_path / "text" / f"train.{side}").write_bytes(numbered(100_000, seed))
    return tmp_path


@pytest.fixture
def start(large):
    """Start the command, and hold it when its workers are at work: `go_on` lets it continue.

    Otherwise it may be done before a busy machine lets this process send its signal.
    """
    started = []

    def start():
        process = subprocess.Popen(
            command(large, "--workers", 2),
            cwd=large,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        parent = psutil.Process(process.pid)
        while process.poll() is None and not list(large.glob("made/.tmp-*/clean/train.0.0*")):
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        return process, parent.children(recursive=True)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def go_on(process):
    """Let a process that is held continue, and return its exit code."""
    process.send_signal(signal.SIGCONT)
    return process.wait()


def test_killed_with_workers_all_are_gone_and_the_next_succeeds(large, start):
    process, workers = start()
    assert len(workers) >= 2
    process.kill()
    process.wait()
    psutil.wait_procs(workers)
    assert not (large / "made" / "corpus").exists()
    assert not list((large / "made").rglob("manifest.json"))
    done = run(large, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert names(large / "made") == ["corpus"]
    pairs = open_corpus(large / "made" / "corpus", verify=True).manifest.splits["train"].pairs
    assert pairs > 90_000


def test_ctrl_c_ends_all_quietly(large, start):
    process, workers = start()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert go_on(process) == 130
    (line,) = process.stderr.read().strip().splitlines()
    assert line.startswith("stopped by Ctrl-C")
    psutil.wait_procs(workers)
    assert names(large / "made") == []


def test_ctrl_c_is_not_for_the_workers_to_answer(large, start):
    process, workers = start()
    for worker in workers:
        worker.send_signal(signal.SIGINT)
    assert go_on(process) == 0
    assert "Traceback" not in process.stderr.read()
    assert names(large / "made") == ["corpus"]


def test_a_worker_killed_for_want_of_memory_is_explained(large, start):
    process, workers = start()
    max(workers, key=lambda worker: worker.memory_info().rss).kill()
    assert go_on(process) == 3
    lines = process.stderr.read().splitlines()
    assert lines[0] == "error: a worker was killed by signal 9, probably because memory ran out"
    assert "fewer --workers" in lines[2]
    psutil.wait_procs(workers)
    assert names(large / "made") == []


@pytest.fixture
def small_disk(tmp_path):
    """Mount a small disk where the corpus is to lie."""
    mounted = []

    def small_disk(megabytes):
        place = tmp_path / "made"
        place.mkdir(exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a disk cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield small_disk
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def packed_text(home, count):
    size = 0
    for seed, side in enumerate(("en", "de")):
        path = home / "text" / f"train.{side}.gz"
        size += path.write_bytes(gzip.compress(numbered(count, seed), 1))
    return size


def test_a_disk_too_small_is_told_before_anything_is_read(large, small_disk):
    place = small_disk(2)
    done = run(large)
    assert done.returncode == 3, done.stderr
    assert "MB of disk space, and 2" in done.stderr
    assert f"  where: {place}" in done.stderr
    assert names(place) == []


@pytest.mark.parametrize("workers", [1, 2], ids=["here", "in a worker"])
def test_a_disk_that_runs_full_is_told_and_nothing_is_left(home, small_disk, workers):
    packed = packed_text(home, 350_000)
    assert 2.5 * packed > 8_000_000  # or no worker is started
    place = small_disk(int(5.2 * packed / 1e6) + 2)
    done = run(home, "--workers", workers, train=FILES.format(ending=".gz"))
    assert done.returncode == 3, done.stderr
    assert "the disk is full; preparing the corpus needs about" in done.stderr
    assert f"  where: {place}" in done.stderr
    assert names(place) == []
