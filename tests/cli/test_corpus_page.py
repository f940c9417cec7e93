"""What `unisono show` says of a corpus."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from prepare.preparing import corpus_settings, pair, sentences, small_data
from unisono.cli import unisono
from unisono.cli.corpus_page import corpus_page
from unisono.corpus import open_corpus
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
    assert "each pair 2.5 times an epoch" in page


def test_what_was_dropped_comes_with_counts_and_examples(corpus):
    page = list(corpus_page(corpus))
    empty = next(number for number, line in enumerate(page) if line.startswith("  empty"))
    assert page[empty].split()[1] == "1"
    assert page[empty + 1].rstrip().endswith("│ x")
    assert any(line.startswith("  identical") for line in page)


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
