import random

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ConfigError, DataError
from unisono.text.load import load_tokenizer
from unisono.text.normalise import normalise
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

ALPHABET = "abcdefghij <>/s_é…漢字.,0123\u200d"


def sentences(count=300):
    draw = random.Random(1)
    return [
        normalise("".join(draw.choices(ALPHABET, k=draw.randint(2, 40)))) or "a"
        for _ in range(count)
    ]


def learn(size=120, lines=None):
    return learn_pieces(lines or sentences(), size=size, character_coverage=1.0)


@pytest.fixture(scope="module")
def pieces():
    return learn()


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


def test_the_same_text_gives_the_same_model(pieces):
    assert learn().model == pieces.model


def test_size_counts_all_pieces(pieces):
    assert pieces.size == 120
    assert max(map(max, pieces.encode(sentences()))) < pieces.size


def test_poor_text_gives_fewer_pieces_than_asked():
    assert 4 < learn(size=5000, lines=["ab ba", "aab"]).size < 100


def test_too_few_pieces_for_the_characters_is_a_setting_to_change():
    with pytest.raises(ConfigError, match="corpus.vocabulary"):
        learn(size=16)


def test_a_saved_model_loads(pieces, tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(pieces.model)
    loaded = load_tokenizer("sentencepiece", path)
    assert loaded.encode(sentences(9)) == pieces.encode(sentences(9))


def foreign_model(**settings):
    class Writer:
        data = b""

        def write(self, data):
            self.data += data

    writer = Writer()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=writer,
        vocab_size=120,
        model_type="bpe",
        minloglevel=3,
        **settings,
    )
    return writer.data


def test_a_damaged_or_foreign_model_is_refused(pieces, tmp_path):
    path = tmp_path / "pieces.model"
    with pytest.raises(DataError, match="No such file"):
        load_tokenizer("sentencepiece", path)
    damaged = [b"", b"junk", *(pieces.model[:end] for end in range(1, len(pieces.model), 7))]
    for model in [*damaged[1:-1], foreign_model(pad_id=0, unk_id=1, bos_id=2, eos_id=3)]:
        path.write_bytes(model)
        with pytest.raises(DataError, match="pieces.model"):
            load_tokenizer("sentencepiece", path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load_tokenizer("sentencepiece", path)


def test_a_model_with_other_special_ids_is_refused(tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(foreign_model(unk_surface="⁇"))
    with pytest.raises(DataError, match=r"have the ids \(-1, 0, 1, 2\)"):
        load_tokenizer("sentencepiece", path)


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(DataError, match="did you mean `bytes`"):
        load_tokenizer("byte", tmp_path)
