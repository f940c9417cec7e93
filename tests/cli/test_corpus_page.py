"""What `unisono show` says of a corpus."""

import json
import re

import msgspec
import pytest
from click.testing import CliRunner

from prepare.preparing import corpus_settings, pair, sentences, small_data
from unisono.cli import unisono
from unisono.cli.pages.corpus import corpus_page
from unisono.corpus import open_corpus
from unisono.corpus.manifest import Dropped
from unisono.corpus.reader import Corpus
from unisono.datasets.corpus_directory import Lock, Text, write_lock
from unisono.prepare import prepare_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    data = small_data(directory / "text")
    more = pair(
        directory, "more", [*sentences(5, 8), "", "same"], [*sentences(5, 9), "x", "same"]
    )
    train = [data.train[0], msgspec.structs.replace(more, weight=2.5)]
    data = msgspec.structs.replace(data, train=train)
    list(prepare_corpus(data, corpus_settings(directory / "corpus")))
    return open_corpus(directory / "corpus")


def test_the_page_answers_how_big_the_training_set_is(corpus):
    page = "\n".join(corpus_page(corpus))
    train = corpus.manifest.splits["train"]
    assert f"{train.pairs:,}" in page
    assert f"{train.source_tokens:,}" in page
    assert f"{train.target_tokens:,}" in page
    assert "train train.en: 400 lines" in page
    assert corpus.manifest.inputs[-1].source.sha256 in page
    assert corpus.fingerprint in page
    assert "each pair 2.5 times per epoch" in page
    first, second = train.blocks
    assert f"an epoch has {first.pairs + 2.5 * second.pairs:.0f} pairs" in page


def test_what_was_dropped_comes_with_counts_and_examples(corpus):
    page = list(corpus_page(corpus))
    empty = next(number for number, line in enumerate(page) if line.startswith("  empty"))
    assert page[empty].split()[1] == "1"
    assert page[empty + 1].rstrip().endswith("│ x")
    assert any(line.startswith("  identical") for line in page)


def test_shares_are_of_the_training_pairs(corpus):
    held_out = {"empty in valid": Dropped(3, [("", "x")])}
    manifest = msgspec.structs.replace(
        corpus.manifest, dropped=corpus.manifest.dropped | held_out
    )
    page = "\n".join(corpus_page(Corpus(corpus.path, manifest)))
    assert "dropped 2 of 407 training pairs (0.5%)" in page
    assert re.search(r"empty in valid +3  \(not in", page)
    assert re.search(r"identical +1  0\.25%", page)


def test_the_settings_that_shaped_the_corpus_are_named(corpus):
    page = "\n".join(corpus_page(corpus))
    assert "max_pieces 200, max_length_ratio 4.0" in page
    assert "byte_fallback false, character_coverage 1.0" in page
    assert "filters turned off: wrong_language" in page


def test_text_that_was_only_fetched_is_told_as_such(tmp_path):
    text = Text(
        name="train.en",
        set="news",
        role="train",
        language="en",
        bytes=5000,
        lines=1234,
        sha256="",
        download="",
        members=(),
        recipe="",
    )
    write_lock(tmp_path, Lock(corpus="demo", texts={"train.en": text}), finished=True)
    shown = CliRunner().invoke(unisono, ["show", str(tmp_path)])
    assert shown.exit_code == 0
    assert "downloaded by `unisono corpora get`: demo; prepare it first" in shown.output
    assert "1,234 lines" in shown.output


def test_the_histogram_counts_every_training_sentence(corpus):
    page = list(corpus_page(corpus))
    first = next(number for number, line in enumerate(page) if line.lstrip().startswith("1–10"))
    rows = [line.replace("█", " ").split() for line in page[first : page.index("", first)]]
    pairs = corpus.manifest.splits["train"].pairs
    for column in (1, 2):
        assert sum(int(row[column].replace(",", "")) for row in rows) == pairs


def test_the_page_fits_the_usual_terminal(corpus):
    _, *page = corpus_page(corpus)  # the first line has the path
    assert max(map(len, page)) <= 80


def test_programs_get_the_manifest(corpus):
    shown = CliRunner().invoke(unisono, ["show", str(corpus.path), "--json"])
    assert json.loads(shown.output)["fingerprint"] == corpus.fingerprint


def test_a_changed_file_is_not_shown_as_a_corpus(corpus, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in corpus.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    ids = bytearray((copy / "train.0.source.ids").read_bytes())
    ids[5] ^= 1
    (copy / "train.0.source.ids").write_bytes(ids)
    shown = CliRunner().invoke(unisono, ["show", str(copy)])
    assert shown.exception is not None
    assert "train.0.source.ids" in str(shown.exception)
