"""From a corpus whose languages have their own pieces to a translation."""

import msgspec
import pytest

from support.tiny import ENGLISH, GERMAN, tiny_settings
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.corpus import open_corpus, write_corpus
from unisono.corpus.manifest import manifest_bytes
from unisono.records import events as kinds
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizers
from unisono.train.job import run_with

PAIRS = [
    (f"{ENGLISH[i]} {ENGLISH[j]}", f"{GERMAN[j]} {GERMAN[i]}")
    for i in range(10)
    for j in range(10)
]

GERMAN_CHARACTERS = {" ", "⁇"}.union(*GERMAN)


def learnt(lines, size):
    return learn_pieces(lines, size=size, character_coverage=1.0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("separate")
    english, german = zip(*PAIRS, strict=True)
    tokenizers = Tokenizers(learnt(english, 52), learnt(german, 41))
    splits = {"train": PAIRS[:80], "valid": PAIRS[80:90], "test": PAIRS[90:]}
    write_corpus(home / "corpus", tokenizers, splits)
    return home


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def run(home, request):
    settings = tiny_settings(
        home,
        run=f"run-{request.param}",
        model={"tied_embeddings": request.param},
        train={"max_steps": 20},
        corpus={"joint": False},
    )
    return home / f"run-{request.param}", list(run_with(Solo(), settings))


def test_a_run_with_two_vocabularies_is_scored_and_bundled(run):
    path, events = run
    scored = [e for e in events if isinstance(e, kinds.Validated | kinds.Tested)]
    assert {event.sentences for event in scored} == {10}
    samples = "".join(file.read_text("utf-8") for file in (path / "samples").iterdir())
    translated = [line.split("\t")[2] for line in samples.splitlines()]
    assert any(translated)
    assert set("".join(translated)) <= GERMAN_CHARACTERS
    bundle = open_bundle(path / "bundle")
    [started] = [e for e in events if isinstance(e, kinds.Started)]
    assert started.parameters == sum(w.numel() for w in bundle.model().parameters())
    # 52 and 41 pieces, rounded up to multiples of 8
    rows = {name: matrix.size(0) for name, matrix in bundle.model().embeddings.items()}
    assert rows in ({"source": 56, "shared": 48}, {"source": 56, "target": 48, "output": 48})


def test_the_bundle_translates_with_the_pieces_of_each_language(run, home):
    path, _ = run
    bundle, corpus = open_bundle(path / "bundle"), open_corpus(home / "corpus")
    for side in ("source", "target"):
        theirs, ours = getattr(bundle.tokenizers, side), getattr(corpus.tokenizers(), side)
        assert theirs.model == ours.model
    lines = [source for source, _ in PAIRS[:7]]
    translations = bundle.translator().translate(lines)
    assert len(translations) == 7
    assert set("".join(translations)) <= GERMAN_CHARACTERS


def test_a_bundle_writes_text_as_its_corpus_did(home, tmp_path):
    corpus = open_corpus(home / "corpus")
    (tmp_path / "corpus").mkdir()
    for file in corpus.path.iterdir():
        (tmp_path / "corpus" / file.name).write_bytes(file.read_bytes())
    settings = tiny_settings(
        tmp_path, train={"max_steps": 1}, corpus={"joint": False, "lowercase": True}
    )
    made_by = msgspec.to_builtins(settings.corpus)
    lower = msgspec.structs.replace(corpus.manifest, settings=made_by)
    (tmp_path / "corpus" / "manifest.json").write_bytes(manifest_bytes(lower))
    list(run_with(Solo(), settings))
    bundle = open_bundle(tmp_path / "run" / "bundle")
    assert bundle.description.lowercase
    assert not bundle.description.plain_quotes
    loud, quiet = bundle.translator().translate(["ONE Two", "one two"])
    assert loud == quiet
