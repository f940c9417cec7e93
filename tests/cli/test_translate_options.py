"""`translate` beyond plain lines (JSON, n-best, prefixes, drawing) and `score --model`."""

import gzip
import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from cli.test_translate import LINES, bundle_at, translate
from unisono.bundle.reader import open_bundle
from unisono.cli import unisono
from unisono.errors import ConfigError, DataError
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding

WORDS = ["to be or not to be", "", "that is the question", "be"]
DRAWN = ("--sample", "--seed", "5", "--temperature", "0.8", "--top-k", "60", "--top-p", "0.95")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with two models: `one` of bytes, and `pieces`, whose translations are text."""
    home = tmp_path_factory.mktemp("options")
    bundle_at(home / "one", seed=1)
    pieces = learn_pieces(
        [*WORDS, "abcdefghijklmnopqrstuvwxyz"], size=60, character_coverage=1.0
    )
    wide = Decoding(beam=4, length_penalty=0.6, max_ratio=1.0, max_extra=4)
    bundle_at(home / "pieces", 2, Tokenizers(pieces, pieces), decoding=wide)
    return home


def run(*words, given=""):
    return CliRunner().invoke(unisono, [str(word) for word in words], input=given)


def of_pieces(home, *options, lines=WORDS):
    given = "".join(f"{line}\n" for line in lines)
    return run("translate", "--device=cpu", "--model", home / "pieces", *options, given=given)


def rows_of(done):
    assert done.exit_code == 0, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.ranks
def test_the_same_seed_draws_the_same_text_whatever_the_workers_and_batches(home):
    alone = translate(home, *DRAWN, "--workers=1")
    assert len(alone) == len(LINES)
    assert translate(home, *DRAWN, "--workers=3") == alone
    assert translate(home, *DRAWN, "--workers=2", "--batch-lines=101") == alone
    assert translate(home, *DRAWN, "--seed=6") != alone


def test_json_has_a_line_for_each_line_and_its_alternatives(home):
    plain = of_pieces(home).stdout.splitlines()
    rows = rows_of(of_pieces(home, "--json", "--n-best=3"))
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert [row["text"] for row in rows] == plain
    assert rows[1] == {"line": 2, "text": "", "parts": 0, "alternatives": []}
    for row in (rows[0], rows[2], rows[3]):
        texts = [one["text"] for one in row["alternatives"]]
        scores = [one["score"] for one in row["alternatives"]]
        assert row["text"] == texts[0]
        assert len(texts) == 3
        assert scores == sorted(scores, reverse=True)
        for one in row["alternatives"]:
            penalty = ((5 + one["pieces"] - 1) / 6) ** 0.6
            assert one["score"] == pytest.approx(one["log_probability"] / penalty)
            mean = one["log_probability"] / one["pieces"]
            assert one["confidence"] == pytest.approx(2.718281828**mean)


def test_a_model_scores_given_translations_of_compressed_files(home, tmp_path):
    lines, given = WORDS[:3], ["that is", "", "be question"]
    source, texts = tmp_path / "source.gz", tmp_path / "texts"
    source.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    texts.write_text("".join(f"{line}\n" for line in given))
    by_model = ("score", texts, "--source", source, "--model", home / "pieces")
    told, shown = json.loads(run(*by_model, "--json").stdout), run(*by_model)
    expected = open_bundle(home / "pieces").translator().score_given(lines, given)
    assert told["lines"] == [asdict(one) for one in expected]
    pieces = sum(one.pieces for one in expected)
    mean = sum(one.log_probability for one in expected) / pieces
    assert told["pieces"] == pieces
    assert told["log_probability_per_piece"] == pytest.approx(mean)
    rows = [f"{one.log_probability:.4f}\t{one.pieces}" for one in expected]
    assert shown.stdout.splitlines() == rows
    assert f"{mean:.4f} per piece over {pieces} pieces" in shown.stderr


def test_each_translation_begins_with_its_prefix(home, tmp_path):
    (tmp_path / "begins").write_text("question\n\nbe that\n\n")
    found = of_pieces(home, "--prefixes", tmp_path / "begins").stdout.splitlines()
    free = of_pieces(home).stdout.splitlines()
    assert found[0].startswith("question")
    assert found[2].startswith("be that")
    assert (found[1], found[3]) == (free[1], free[3])
    assert not free[0].startswith("question")


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (["--n-best=3"], ConfigError, "do not fit on one line"),
        (["--n-best=3", "--beam=2", "--json"], ConfigError, "cannot find 3 alternatives"),
        (["--top-k=3"], ConfigError, "--top-k is for drawing"),
        (["--prefixes", "BEGINS"], DataError, "different numbers of lines"),
        (["--prefixes", "NONE"], DataError, "cannot be read"),
    ],
)
def test_options_that_make_no_sense_are_refused(home, tmp_path, options, kind, words):
    (tmp_path / "BEGINS").write_text("one\n")
    done = of_pieces(home, *[tmp_path / o if o.isupper() else o for o in options])
    assert isinstance(done.exception, kind)
    assert done.exception.exit_code == (2 if kind is ConfigError else 3)
    assert words in str(done.exception)


def test_score_by_a_model_needs_the_source_and_one_text(home, tmp_path):
    (tmp_path / "text").write_text("be\n")
    text, model = tmp_path / "text", home / "pieces"
    assert "needs the source" in str(run("score", text, "--model", model).exception)
    both = ("score", text, text, "--source", text, "--model", model)
    assert "scores one translation" in str(run(*both).exception)
