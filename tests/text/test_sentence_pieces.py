import io
import random
from itertools import chain

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from support.normalising import normalise
from unisono.errors import ConfigError, DataError
from unisono.text import sentence_pieces
from unisono.text.load import load_tokenizer
from unisono.text.sentence_pieces import SentencePieces, learn_pieces
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

ALPHABET = "abcdefghij <>/s_é…漢字.,0123\u200d"


def sentences(count=300):
    draw = random.Random(1)
    return [
        normalise("".join(draw.choices(ALPHABET, k=draw.randint(2, 40)))) or "a"
        for _ in range(count)
    ]


def learn(size=120, lines=None, **choices):
    return learn_pieces(
        lines or sentences(), size=size, **{"character_coverage": 1.0} | choices
    )


@pytest.fixture(scope="module")
def pieces():
    return learn()


@pytest.fixture(scope="module")
def models(pieces):
    identity = {"normalization_rule_name": "identity", "user_defined_symbols": ["<x>", "ab"]}
    return {
        ("bpe", True): learn(size=400, byte_fallback=True),
        ("unigram", True): learn(size=340, byte_fallback=True, pieces="unigram"),
        "plain": pieces,
        "bytes": learn(size=400, byte_fallback=True),
        "rare characters left out": learn(character_coverage=0.98),
        "foreign": SentencePieces(foreign(**identity)),
    }


@given(st.lists(st.text(st.sampled_from(ALPHABET)), max_size=5))
def test_known_characters_survive_the_round_trip(pieces, lines):
    lines = [normalise(line) for line in lines]
    assert pieces.decode(pieces.encode(lines)) == lines


def test_names_of_special_pieces_are_ordinary_text(pieces):
    lines = ["<s> a </s>", "<s>", "</s>"]
    encoded = pieces.encode(lines)
    assert min(min(ids) for ids in encoded) > END_ID
    assert pieces.decode(encoded) == lines


def test_special_ids_are_where_everybody_expects_them(pieces):
    assert pieces.encode(["Ω"])[0][-1] == UNKNOWN_ID
    assert pieces.decode([[UNKNOWN_ID]]) == ["⁇"]
    word = pieces.encode(["ab"])[0]
    framed = [BEGIN_ID, *word, END_ID, PADDING_ID]
    assert pieces.decode([framed, np.array(framed, np.uint16)]) == ["ab", "ab"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_model(kind):
    assert learn(pieces=kind).model == learn(pieces=kind).model


@pytest.mark.parametrize("coverage", [0.98, 1.0])
def test_counted_words_give_the_pieces_of_whole_lines(coverage):
    lines, model = [*sentences(2500), "", "a  b"], io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=500,
        character_coverage=coverage,
        normalization_rule_name="identity",
        pad_id=PADDING_ID,
        unk_id=UNKNOWN_ID,
        bos_id=BEGIN_ID,
        eos_id=END_ID,
        minloglevel=3,
    )
    models = learn(500, lines, character_coverage=coverage).model, model.getvalue()
    ours, theirs = (sentencepiece.SentencePieceProcessor(model_proto=m) for m in models)
    assert [ours.id_to_piece(i) for i in range(500)] == [
        theirs.id_to_piece(i) for i in range(500)
    ]


def test_size_counts_all_pieces(pieces):
    assert pieces.size == 120
    assert max(map(max, pieces.encode(sentences()))) < pieces.size


def test_poor_text_gives_fewer_pieces_than_asked():
    assert 4 < learn(size=5000, lines=["ab ba", "aab"]).size < 100


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_too_few_pieces_for_the_characters_is_a_setting_to_change(kind, byte_fallback):
    with pytest.raises(ConfigError, match="(?s)need.*corpus.vocabulary") as caught:
        learn(size=16, pieces=kind, byte_fallback=byte_fallback)
    assert ("256 bytes" in caught.value.what) == byte_fallback
    needed = int(caught.value.what.split()[-1])
    assert learn(size=needed + 1, pieces=kind, byte_fallback=byte_fallback).size > 16


def test_text_of_nothing_but_endless_lines_cannot_be_learnt_from():
    with pytest.raises(DataError, match="no line"):
        learn(lines=["abc" * 5000])


def test_unigrams_are_learnt_from_a_bounded_part_of_all_the_text(monkeypatch):
    monkeypatch.setattr(sentence_pieces, "UNIGRAM_CHARACTERS", 2000)
    sides = [side for k in range(300) for side in (f"aaaa {k} abab", f"bbbb {k} baba")]
    some = sentence_pieces._sample(iter(sides))
    assert 500 < sum(map(len, some)) <= 2000
    assert some == sentence_pieces._sample(sides) == [line for line in sides if line in some]
    # from either language, from the beginning and from the end
    assert {line[0] for line in some[:20]} == {line[0] for line in some[-20:]} == {"a", "b"}
    assert sides.index(some[0]) < 60
    assert sides.index(some[-1]) >= 540
    assert learn(lines=sides, pieces="unigram", size=40).size <= 40


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(TEXT | st.just("👩‍💻 ᏣᎳᎩ ꙮ \U0001f9ff"), max_size=5))
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_with_byte_fallback_any_character_survives(models, kind, lines):
    pieces, lines = models[kind, True], [normalise(line) for line in lines]
    encoded = pieces.encode(lines)
    assert pieces.decode(encoded) == lines
    assert all(END_ID < i < pieces.size for line in encoded for i in line)


def word_by_word(pieces, line):
    return [i for word in pieces.encode(line.split(" ")) for i in word]


MIXED = st.text(st.sampled_from(ALPHABET + "Ωж🙂  ")) | TEXT


@given(MIXED)
@pytest.mark.parametrize("name", ["plain", "bytes", "rare characters left out", "foreign"])
def test_words_are_encoded_alone_where_a_model_says_so(models, name, line):
    pieces, line = models[name], normalise(line)
    assert pieces.encodes_words_alone
    assert word_by_word(pieces, line) == pieces.encode([line])[0]


TIED_TO_OTHERS = {  # settings, and text on which it shows that a word does not stand alone
    "pieces across spaces": ({"split_by_whitespace": False, "vocab_size": 500}, sentences()),
    "spaces behind words": ({"treat_whitespace_as_suffix": True}, []),
    "no space before the first": ({"add_dummy_prefix": False}, ["ab ab"]),
    "a symbol with a space": ({"user_defined_symbols": ["ab\u2581c"]}, ["ab c"]),
    "whole words": ({"model_type": "word", "hard_vocab_limit": False}, ["Ω Ψ"]),
    "unigram": ({"model_type": "unigram", "vocab_size": 60}, []),
    "a rule that changes text": ({"normalization_rule_name": "nmt_nfkc"}, []),
}


@pytest.mark.parametrize(("settings", "lines"), TIED_TO_OTHERS.values(), ids=TIED_TO_OTHERS)
def test_other_models_make_no_promise_about_words(settings, lines):
    identity = {"normalization_rule_name": "identity"}
    pieces = SentencePieces(foreign(**identity | settings))
    assert not pieces.encodes_words_alone
    if lines:
        assert any(word_by_word(pieces, line) != pieces.encode([line])[0] for line in lines)


def test_a_saved_model_loads(pieces, tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(pieces.model)
    loaded = load_tokenizer("sentencepiece", path)
    assert loaded.encode(sentences(9)) == pieces.encode(sentences(9))


def foreign(**settings):
    """Return a model as plain spm_train makes it: unknown 0, begin 1, end 2, no padding."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=model,
        **{"vocab_size": 120, "model_type": "bpe", "minloglevel": 3} | settings,
    )
    return model.getvalue()


FOREIGN = {
    "plain": {},
    "unigram": {"model_type": "unigram", "vocab_size": 60},
    "no begin, no end": {"bos_id": -1, "eos_id": -1},
    "at the end": {"unk_id": 119, "bos_id": 0, "eos_id": 118, "pad_id": 7},
    "turned round": {"unk_id": 3, "bos_id": 2, "eos_id": 1, "pad_id": 0},
    "symbols": {"user_defined_symbols": ["<x>", "ab"], "control_symbols": ["<2de>"]},
    "bytes": {"byte_fallback": True, "vocab_size": 400},
}


@pytest.mark.parametrize("settings", FOREIGN.values(), ids=FOREIGN)
def test_ids_of_a_foreign_model_are_mapped_to_ours_and_back(settings):
    model = foreign(**settings)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = SentencePieces(model)
    lines = ["ab <x> ba", *sentences(50)]
    encoded, by_them = pieces.encode(lines), theirs.encode(lines)
    assert pieces.decode(encoded) == theirs.decode(by_them)
    assert pieces.model == model

    both = set(zip(chain(*encoded), chain(*by_them), strict=True))
    known = sorted(pair for pair in both if pair[0] != UNKNOWN_ID)
    assert known == [(o, t) for o, t in sorted(both) if t != theirs.unk_id()]
    ours, their = zip(*known, strict=True)
    assert list(their) == sorted(set(their))
    assert list(ours) == sorted(set(ours))
    assert END_ID < ours[0] < ours[-1] < pieces.size
    special = {theirs.pad_id(), theirs.unk_id(), theirs.bos_id(), theirs.eos_id()} - {-1}
    assert pieces.size == theirs.get_piece_size() - len(special) + 4


@pytest.mark.parametrize("settings", FOREIGN.values(), ids=FOREIGN)
def test_special_ids_of_a_foreign_model_are_ours(settings):
    pieces = SentencePieces(foreign(**settings))
    [unknown], [word] = pieces.encode(["Ω"]), pieces.encode(["ab"])
    assert (UNKNOWN_ID in unknown) != ("byte_fallback" in settings)
    framed = [BEGIN_ID, *word, END_ID, PADDING_ID, PADDING_ID]
    assert pieces.decode([framed, np.array(framed, np.uint16), []]) == ["ab", "ab", ""]
    assert pieces.decode([[UNKNOWN_ID]])[0].strip() == "⁇"


def test_our_own_models_need_no_mapping(pieces):
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces.model)
    lines = ["Ω ab", *sentences(50)]
    assert pieces.encode(lines) == processor.encode(lines)


def test_a_damaged_model_is_refused(pieces, tmp_path):
    path = tmp_path / "pieces.model"
    with pytest.raises(DataError, match="No such file"):
        load_tokenizer("sentencepiece", path)
    for whole in (pieces.model, foreign(normalization_rule_name="identity")):
        # The last field, rules for the way back, is empty and may be missing.
        for end in range(1, len(whole) - 10, 3):
            path.write_bytes(whole[:end])
            with pytest.raises(DataError, match="pieces.model"):
                load_tokenizer("sentencepiece", path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load_tokenizer("sentencepiece", path)


@pytest.mark.parametrize("content", [b"junk", b"\x00" * 99, b"Ein Satz.\n" * 99])
def test_a_file_that_is_no_model_is_refused(content):
    with pytest.raises(DataError, match="(?s)SentencePiece.*some.model"):
        SentencePieces(content, "some.model")


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(DataError, match="did you mean `bytes`"):
        load_tokenizer("byte", tmp_path)
