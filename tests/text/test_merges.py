import gzip
import io
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from support.merging import ladder, probabilities
from support.normalising import normalise
from unisono.errors import ConfigError
from unisono.text.load import BytePieces
from unisono.text.merges import Merges, RaggedRows, merges_of
from unisono.text.normalise import Normalisation
from unisono.text.sentence_pieces import SentencePieces, learn_pieces
from unisono.text.tokenizer import UNKNOWN_ID

MULTI30K = Path(__file__).resolve().parents[3] / "shared" / "data" / "multi30k-en-de"
ALPHABET = "abcdefghij <>/s_é…漢字.,0123\u200d"


def sentences(count=300):
    draw = random.Random(1)
    return [
        normalise("".join(draw.choices(ALPHABET, k=draw.randint(2, 40)))) or "a"
        for _ in range(count)
    ]


def foreign(**settings):
    """Return a model as plain spm_train makes it: unknown 0, begin 1, end 2, no padding."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=model,
        **{"vocab_size": 120, "model_type": "bpe", "minloglevel": 3} | settings,
    )
    return SentencePieces(model.getvalue())


@pytest.fixture(scope="module")
def models():
    learnt = {
        "plain": {"size": 150},
        "bytes": {"size": 400, "byte_fallback": True},
        "rare characters left out": {"size": 120, "character_coverage": 0.98},
        "tags": {"size": 150, "tags": ["<BT>", "<2de>"]},
    }
    made = {
        name: learn_pieces(sentences(), **{"character_coverage": 1.0} | settings)
        for name, settings in learnt.items()
    }
    made["foreign"] = foreign()
    made["symbols"] = foreign(user_defined_symbols=["<x>", "ab"])
    made["no space before the first"] = foreign(add_dummy_prefix=False)
    return {name: (pieces, merges_of(pieces, where="test")) for name, pieces in made.items()}


def rows_of(words):
    return RaggedRows(
        np.array([i for word in words for i in word], np.int32), np.array(list(map(len, words)))
    )


def drop_all(number, going):
    return np.full(len(going), 10_000)


def segment(merges, words, drop=None):
    return [row.tolist() for row in merges.segment(rows_of(words), drop).split()]


def words_of(merges, ids):
    """Cut a line into its words, as training does."""
    words = []
    for i in ids:
        if merges.begins[i] or not words:
            words.append([])
        words[-1].append(i)
    return words


NAMES = [
    "plain",
    "bytes",
    "rare characters left out",
    "tags",
    "foreign",
    "symbols",
    "no space before the first",
]
TEXT = st.text(st.sampled_from(ALPHABET + "Ωж🙂  ")) | st.text(
    st.characters(exclude_categories=["Cs"])
)


@given(TEXT)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_drop_gives_the_pieces_of_sentencepiece(models, name, line):
    pieces, merges = models[name]
    [ids] = pieces.encode([normalise(line)])
    words = words_of(merges, ids) or [[UNKNOWN_ID]]
    assert segment(merges, words) == words


@pytest.mark.skipif(not MULTI30K.is_dir(), reason=f"Multi30k is not in {MULTI30K}")
def test_nothing_drop_gives_the_pieces_of_sentencepiece_on_real_text():
    lines = []
    for name in ("val.en.gz", "val.de.gz", "test_2016_flickr.en.gz", "test_2016_flickr.de.gz"):
        with gzip.open(MULTI30K / name, "rt", encoding="utf-8") as file:
            lines += Normalisation()([line.rstrip("\n") for line in file])
    pieces = learn_pieces(lines[:2028], size=4000, character_coverage=0.9995)
    merges = merges_of(pieces, where="test")
    encoded = pieces.encode(lines)
    assert sum(map(len, encoded)) > 50_000
    assert any(UNKNOWN_ID in ids for ids in encoded)
    words = [word for ids in encoded for word in words_of(merges, ids)]
    assert segment(merges, words) == words


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_merges_are_drop_as_often_as_the_paper_says(dropout):
    pieces = ladder("▁a", "bc", "▁ab", "▁abc", "abc", "cd", "▁abcd")
    draw, tries = np.random.default_rng(1), 20_000

    def by_chance(number, going):
        return draw.geometric(1 - dropout, len(going)) - 1

    word = [next(i for i, p in enumerate(pieces) if p.text == "▁abcd")]
    found = Counter(map(tuple, segment(Merges(pieces), [word] * tries, by_chance)))
    expected = probabilities(pieces, tuple("▁abcd"), dropout)
    assert sum(expected.values()) == pytest.approx(1)
    ids = {p.text: i for i, p in enumerate(pieces)}
    for outcome, probability in expected.items():
        count = found.pop(tuple(ids[text] for text in outcome))
        assert count / tries == pytest.approx(probability, abs=0.012)
    assert not found


def test_of_equal_merges_the_left_one_is_made_first():
    pieces = ladder("aa")
    assert segment(Merges(pieces), [[5, 5, 5], [5], [5, 5, 5, 5]]) == [[4, 5], [5], [4, 4]]


def test_what_is_no_text_is_never_cut_or_merged(models):
    tags, merges = models["tags"]
    [word] = tags.encode(["ab"])
    [spelled] = segment(merges, [[tags.tags["<BT>"], *word, UNKNOWN_ID]], drop_all)
    assert [spelled[0], spelled[-1]] == [tags.tags["<BT>"], UNKNOWN_ID]
    assert len(spelled) == 5  # the tag, the space, two letters, what is unknown
    for name, line in (("symbols", "<x>"), ("bytes", "ж")):
        pieces, merges = models[name]
        [ids] = pieces.encode([line])
        assert segment(merges, [ids], drop_all) == [ids]
    pieces, merges = models["symbols"]
    [ids], [[_, symbol]] = pieces.encode(["cabc"]), pieces.encode(["ab"])
    assert segment(merges, [ids], drop_all)[0].count(symbol) == 1


def test_the_number_of_merges_is_known_beforehand(models):
    pieces, merges = models["plain"]
    words = [word for ids in pieces.encode(sentences(50)) for word in words_of(merges, ids)]
    for word, letters in zip(words, segment(merges, words, drop_all), strict=True):
        assert merges.merged[word].sum() == len(letters) - len(word)


def test_words_of_any_length_go_together(models):
    pieces, merges = models["plain"]
    [long] = pieces.encode(["abcdefghij" * 50])
    words = [[UNKNOWN_ID], long, *pieces.encode(["a", "abc"])]
    assert segment(merges, words) == words


REFUSED = {
    "unigram": ({"model_type": "unigram", "vocab_size": 60}, "are not byte-pair merges"),
    "pieces across spaces": (
        {"split_by_whitespace": False, "vocab_size": 500},
        "span several words",
    ),
    "spaces behind words": ({"treat_whitespace_as_suffix": True}, "behind words"),
}


@pytest.mark.parametrize(("settings", "says"), REFUSED.values(), ids=REFUSED)
def test_models_that_cannot_be_merged_again_are_refused(settings, says):
    with pytest.raises(ConfigError, match=says) as caught:
        merges_of(foreign(**settings), where="[batching] bpe_dropout")
    assert caught.value.where == "[batching] bpe_dropout"
    assert "bpe_dropout = 0" in caught.value.fix


def test_bytes_are_no_merged_pieces():
    with pytest.raises(ConfigError, match="are not byte-pair merges"):
        merges_of(BytePieces(), where="test")
