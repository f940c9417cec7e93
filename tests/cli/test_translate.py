"""`unisono translate` with several workers and with several models, as a user starts it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from html import escape
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from models.sample import SETTINGS
from unisono.bundle.reader import ensemble, open_bundle
from unisono.bundle.writer import write_bundle
from unisono.cli import unisono
from unisono.errors import ConfigError, DataError
from unisono.models.transformer import build_model
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding

JOINT = Tokenizers(*[BytePieces()] * 2)
LINES = [f"{'ab' * (number % 9)} {number}" for number in range(230)]
LINES[7] = LINES[229] = ""


def bundle_at(path, seed, tokenizers=JOINT, **choices):
    torch.manual_seed(seed)
    about = {
        "normalisation": Normalisation(),
        "source_language": "de",
        "target_language": "en",
        "decoding": Decoding(beam=2, max_ratio=1.0, max_extra=1),
        "max_pieces": 40,
        "step": 1,
        "scores": {},
    }
    own = 0 if tokenizers.joint else tokenizers.source.size
    model = build_model(SETTINGS, tokenizers.target.size, own)
    write_bundle(path, model=model, tokenizers=tokenizers, **{**about, **choices})
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("translate")
    bundle_at(home / "one", seed=1)
    bundle_at(home / "two", seed=2, max_pieces=9)
    return home


def command(home, *options, models=("one",)):
    named = [word for model in models for word in ("--model", str(home / model))]
    return [sys.executable, "-m", "unisono", "translate", "--device", "cpu", *named, *options]


def translate(home, *options, **choices):
    done = subprocess.run(
        command(home, *options, **choices),
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@contextmanager
def at_work(home, lines=120):
    """Yield a program that may have two workers, has translated and waits for more lines."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = command(home, "--workers=2", f"--batch-lines={lines}")
    with subprocess.Popen(words, start_new_session=True, **pipes) as process:
        try:
            process.stdin.write(b"a b\n" * lines)
            process.stdin.flush()
            for _ in range(lines):
                assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def children_of(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def wait_until_gone(pids):
    while any(Path(f"/proc/{pid}").exists() and not is_zombie(pid) for pid in pids):
        time.sleep(0.05)


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.ranks
def test_any_number_of_workers_translates_the_same_in_order(home):
    alone = translate(home, "--workers=1")
    assert len(alone) == len(LINES)
    assert alone[7] == alone[229] == ""
    assert len(set(alone)) > 50
    assert translate(home, "--workers=3") == alone
    assert translate(home, "--workers=2", "--batch-lines=100") == alone


@pytest.mark.ranks
def test_workers_are_other_processes_and_leave_at_the_end_of_the_lines(home):
    with at_work(home) as process:
        workers = children_of(process)
        assert len(workers) == 2
        process.stdin.close()
        assert process.wait() == 0
        wait_until_gone(workers)
        assert process.stderr.read() == b""


@pytest.mark.ranks
def test_workers_die_with_a_parent_that_was_killed(home):
    with at_work(home) as process:
        workers = children_of(process)
        process.kill()
        process.wait()
        wait_until_gone(workers)


@pytest.mark.ranks
def test_ctrl_c_ends_all_without_a_traceback(home):
    with at_work(home) as process:
        workers = children_of(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait() == 130
        wait_until_gone(workers)
        told = process.stderr.read().decode().strip()
        assert told == "stopped by Ctrl-C; the same command continues or starts over"


@pytest.mark.ranks
def test_a_worker_that_was_killed_is_told_without_a_traceback(home):
    with at_work(home) as process:
        os.kill(int(children_of(process)[0]), signal.SIGKILL)
        # So much that the other worker cannot do all of it before the loss is noticed.
        _, told = process.communicate(b"a b\n" * 120 * 100)
        assert process.returncode == 3
        assert told.decode().startswith("error: a worker was killed by signal 9")


@pytest.mark.ranks
def test_few_lines_are_not_worth_a_worker(home):
    with at_work(home, lines=20) as process:
        assert children_of(process) == []


def run(home, *models, lines="ab\n"):
    named = [word for model in models for word in ("--model", str(home / model))]
    return CliRunner().invoke(unisono, ["translate", "--device=cpu", *named], input=lines)


def test_several_models_translate_together(home):
    translator = ensemble([open_bundle(home / "one"), open_bundle(home / "two")])
    assert len(translator.models) == 2
    lines = ["to be", "or not", "to be that"]
    given = "".join(f"{line}\n" for line in lines)
    done = run(home, "one", "two", lines=given)
    assert done.exit_code == 0, done.output
    assert done.stdout.split("\n")[:-1] == translator.translate(lines)
    alone = [run(home, one, lines=given).stdout for one in ("one", "two")]
    assert done.stdout not in alone
    assert run(home, "one", "one", lines=given).stdout == alone[0]


def test_together_they_take_lines_as_long_as_all_of_them_can(home):
    assert run(home, "one", lines="x" * 30).stderr == ""
    told = run(home, "one", "two", lines="x" * 30).stderr
    assert told == "note: line 1 has over 9 pieces and was translated in 4 parts\n"


OTHERS = {
    "languages": {"target_language": "fr"},
    "normalisation": {"normalisation": Normalisation(lowercase=True)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_models_that_do_not_fit_together_are_refused_by_name(home, what, tmp_path):
    other = bundle_at(tmp_path / "other", seed=3, **OTHERS[what])
    with pytest.raises(DataError) as caught:
        ensemble([open_bundle(home / "one"), open_bundle(other)])
    assert f"different {what}" in caught.value.what
    assert str(home / "one") in caught.value.what
    assert str(other) in caught.value.what


def pieces_of(text):
    """Return the pieces of words, always as many."""
    pieces = learn_pieces([text], size=24, character_coverage=1.0)
    assert pieces.size == 24
    return pieces


@pytest.mark.parametrize(
    ("what", "ours", "theirs"),
    [
        ("kinds of tokenizers", "BB", "11"),
        ("target pieces", "11", "22"),
        ("target pieces", "12", "11"),
        ("source pieces", "12", "22"),
    ],
)
def test_other_pieces_are_refused_before_any_weights_are_read(what, ours, theirs, tmp_path):
    known = {
        "B": BytePieces(),
        "1": pieces_of("abcdabcdefgh efghijklijkl mnopmnop"),
        "2": pieces_of("klmnklmnopqr opqrstuvstuv wxyzwxyz"),
    }
    assert known["1"].model != known["2"].model
    bundles = []
    for pair in (ours, theirs):
        path = tmp_path / pair
        bundle_at(path, seed=1, tokenizers=Tokenizers(*(known[name] for name in pair)))
        bundles.append(open_bundle(path))
        (path / "model.safetensors").unlink()
    with pytest.raises(DataError, match=f"they have different {what}"):
        ensemble(bundles)


def test_a_mismatch_is_shown_with_both_names(home, tmp_path):
    other = bundle_at(tmp_path / "other", seed=3, source_language="nl")
    done = CliRunner().invoke(
        unisono,
        ["translate", "--device=cpu", "--model", str(home / "one"), "--model", str(other)],
        input="ab\n",
    )
    assert isinstance(done.exception, DataError)
    assert done.stdout == ""
    assert str(home / "one") in str(done.exception)
    assert str(other) in str(done.exception)


def test_a_checkpoint_is_told_how_to_become_a_bundle(tmp_path):
    checkpoint = tmp_path / "runs" / "checkpoints" / "step-0000010"
    checkpoint.mkdir(parents=True)
    (checkpoint / "progress.json").write_text("{}")
    done = CliRunner().invoke(unisono, ["translate", "--model", str(checkpoint)])
    assert isinstance(done.exception, DataError)
    words = f"unisono average {tmp_path / 'runs'} --checkpoints step-0000010 --to BUNDLE"
    assert words in str(done.exception)


@pytest.mark.ranks
def test_nothing_is_loaded_that_translating_does_not_need(home):
    code = (
        "import sys; sys.argv = ['unisono', 'translate', '--device=cpu', '--model', "
        f"{str(home / 'one')!r}]\n"
        "from unisono.cli import unisono\n"
        "unisono(standalone_mode=False)\n"
        "print({'sympy', 'torch._dynamo'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="a b\n", capture_output=True, text=True, check=True
    )
    assert done.stderr == "set()\n"


def translated(home, text, *options):
    """Return the exit code, the output, and what was said, for a whole text."""
    words = ["translate", "--model", str(home / "one"), "--device", "cpu", *options]
    done = CliRunner().invoke(unisono, words, input=text)
    return done.exception, done.stdout_bytes


def test_a_whole_text_keeps_its_lines_and_white_space(home):
    failed, out = translated(home, "  One two. Three!\r\n\n- four\n", "--documents")
    assert failed is None
    translations = (
        open_bundle(home / "one").translator().translate(["One two.", "Three!", "four"])
    )
    assert out.decode() == "  {} {}\r\n\n- {}\n".format(*translations)


def test_a_page_keeps_its_tags_and_entities(home):
    page = '<p class="a&amp;b">One two.<br>Three!</p><!-- four --> &copy; 5\n'
    failed, out = translated(home, page, "--html")
    assert failed is None
    one, three = open_bundle(home / "one").translator().translate(["One two.", "Three!"])
    expected = f'<p class="a&amp;b">{escape(one, quote=False)}<br>{escape(three, quote=False)}'
    assert out.decode() == expected + "</p><!-- four --> &copy; 5\n"


def test_whole_texts_say_what_they_cannot_do(home):
    for options in (["--json"], ["--prefixes", str(home / "one")]):
        failed, out = translated(home, "One.", "--documents", *options)
        assert isinstance(failed, ConfigError)
        assert "not for whole texts" in str(failed)
    failed, _ = translated(home, b"One \xff two.", "--documents")
    assert isinstance(failed, DataError)
    assert "byte 5 is not UTF-8" in str(failed)
    assert translated(home, b"", "--documents") == (None, b"")
