"""What reaches a terminal, and what a command does if there is none or its disk is full."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.readers import run
from unisono.cli import HIDDEN_VERBS, VERBS

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;owned\x07\x9b31m\u202ex"
GOLDEN = Path(__file__).parents[1] / "golden"
BUNDLE = str(GOLDEN / "bundle-1")
COMMANDS = {
    "help": ("--help",),
    "show": ("show", str(GOLDEN / "imported-1")),
    "completion": ("completion", "bash"),
    "list": ("corpora", "list"),
    "translate": ("translate", "--model", BUNDLE, "--beam", "1", "--workers", "1"),
}


@pytest.mark.parametrize("verb", [*VERBS, *HIDDEN_VERBS])
def test_no_verb_passes_on_what_a_terminal_obeys(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (
        (EVIL,),
        (f"--{EVIL}",),
        (EVIL, f"--to={EVIL}", f"--set={EVIL}"),
        (EVIL, EVIL),
    ):
        code, said, crashed = run([verb, *words])
        assert not crashed
        assert code not in (0, None), said
        assert said
        assert not OBEYED.search(said)


def test_texts_of_score_and_names_of_export_are_shown_and_not_obeyed(tmp_path):
    (tmp_path / "a.de").write_text(f"{EVIL}\n")
    for words in (
        ("score", str(tmp_path / "a.de"), str(tmp_path / "a.de")),
        ("score", str(tmp_path / "a.de"), str(tmp_path / "a.de"), "--json"),
        ("export", BUNDLE, "--to", "ctranslate2", "--output", str(tmp_path / EVIL)),
        ("translate", "--model", BUNDLE, "--workers", "1"),
        ("translate", "--model", BUNDLE, "--workers", "1", "--json"),
    ):
        _, said, crashed = run(words, f"{EVIL}\n".encode())
        assert not crashed
        assert said
        assert not OBEYED.search(said)


@pytest.mark.ranks
@pytest.mark.parametrize(
    "words", [("unisono", "report", EVIL), ("unisono.cli.agent", f"--rdzv-conf={EVIL}", "x")]
)
def test_the_programs_themselves_filter_what_they_print(words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert done.returncode
    assert done.stderr
    assert not OBEYED.search(done.stdout + done.stderr)


def unisono(name, shell, **variables):
    """Run a command with the streams that `shell` gives it."""
    words = [sys.executable, "-m", "unisono", *COMMANDS[name]]
    return subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *words],
        input=b"one\n",
        capture_output=True,
        env={**os.environ, **variables},
    )


@pytest.mark.ranks
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_behind_the_output_is_an_error(name):
    done = unisono(name, "> /dev/full")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"standard output cannot be written: No space left" in done.stderr


@pytest.mark.ranks
@pytest.mark.parametrize("name", COMMANDS)
def test_without_streams_a_command_ends_as_with_them(name):
    assert unisono(name, "<&- >&- 2>&-").returncode == 0
    assert unisono(name, "<&- > /dev/null").stderr.count(b"Traceback") == 0


@pytest.mark.ranks
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_that_knows_only_ascii_gets_ascii(name):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = unisono(name, "", PYTHONIOENCODING="ascii", **plain)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert (done.stdout + done.stderr).isascii()


@pytest.mark.ranks
def test_where_no_file_can_be_written_that_is_said(tmp_path):
    """As on a machine whose disk is full: what we import looks for a temporary directory."""
    (tmp_path / "text").write_text("one\n")
    words = [sys.executable, "-m", "unisono", "score", "text", "text"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "no file can be written to any temporary directory" in done.stderr
    assert "TMPDIR" in done.stderr
