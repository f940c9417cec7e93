"""A run that starts from a Hugging Face directory, with its pieces."""

from itertools import pairwise

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")

from bundle.test_huggingface import ENGLISH, GERMAN, marian_directory
from support.tiny import tiny_settings
from unisono.bundle.pieces import pieces_of
from unisono.bundle.reader import open_bundle
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
from unisono.prepare.build import prepare_corpus
from unisono.records.events import Ended, StepTaken
from unisono.text.tokenizer import UNKNOWN_ID
from unisono.train.job import run_with


def known_words(tokenizer, lines):
    """Return eight words without unknown pieces."""
    words = " ".join(lines).split()
    known = [word for word in words if UNKNOWN_ID not in tokenizer.encode([word])[0]]
    return (known * 8)[:8]


def test_text_is_encoded_like_marians_and_training_goes_on_from_its_weights(tmp_path):
    torch.set_num_threads(1)
    marian_directory(tmp_path / "model")
    (tmp_path / "text").mkdir()
    like = pieces_of(tmp_path / "model")
    known = {
        "en": known_words(like.tokenizers.source, ENGLISH),
        "de": known_words(like.tokenizers.target, GERMAN),
    }
    for name in ("train", "valid", "test"):
        for side, words in known.items():
            text = "".join(f"{word} {other}\n" for word, other in pairwise(words))
            (tmp_path / "text" / f"{name}.{side}").write_text(text, "utf-8")
    settings = tiny_settings(
        tmp_path,
        start={"from": str(tmp_path / "model")},
        model={
            "encoder_layers": 2,
            "decoder_layers": 2,
            "norm": "post",
            "activation": "silu",
            "output_bias": True,
        },
        train={"max_steps": 2},
        corpus={"drop_identical": False, "drop_duplicates": False, "drop_overlap": False},
    )
    list(prepare_corpus(settings.data, settings.corpus, like=like))
    corpus = open_corpus(tmp_path / "corpus", verify=True)
    assert corpus.tokenizers().fingerprint == like.tokenizers.fingerprint
    events = list(run_with(Solo(), settings))
    assert len([event for event in events if isinstance(event, StepTaken)]) == 2
    assert isinstance(events[-1], Ended)
    bundle = open_bundle(tmp_path / "run" / "bundle")
    assert len(bundle.translator().translate(ENGLISH)) == len(ENGLISH)
