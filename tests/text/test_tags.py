import io

import pytest
import sentencepiece

from unisono.errors import DataError
from unisono.text.load import load_tokenizers
from unisono.text.normalise import MAX_TAG_CHARACTERS, cut_tags, encode_source, tag_fault
from unisono.text.sentence_pieces import SentencePieces, learn_pieces
from unisono.text.tokenizer import END_ID, Tokenizers

LINES = ["one two <three>, 2 B T d e", "to be or not to be", "a <2de> in the text"] * 30
TAGS = ["<BT>", "<2de>", "<2de>+"]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request):
    return learn_pieces(LINES, size=60, character_coverage=1.0, pieces=request.param, tags=TAGS)


def test_a_tag_is_one_piece_in_front_of_the_text(pieces):
    [text], [tagged] = pieces.encode(["to be"]), encode_source(pieces, ["<BT> to be"])
    assert tagged == [pieces.tags["<BT>"], *text]
    assert encode_source(pieces, ["to be"], "<BT>") == [tagged]
    assert encode_source(pieces, ["<BT>to be"]) == [tagged]  # a space is easily forgotten


def test_tags_may_follow_one_another(pieces):
    [ids] = encode_source(pieces, ["<2de> <BT> to be"], "<2de>+")
    assert ids[:3] == [pieces.tags[tag] for tag in ("<2de>+", "<2de>", "<BT>")]
    assert ids[3:] == pieces.encode(["to be"])[0]


def test_the_longest_tag_that_fits_is_meant(pieces):
    assert cut_tags("<2de>+ a", pieces.tags) == ([pieces.tags["<2de>+"]], "a")


@pytest.mark.parametrize("line", ["a <2de> b", "a<2de>", "<2d e>", "< BT>", "(<BT>)"])
def test_elsewhere_a_tag_is_text_like_any_other(pieces, line):
    [ids] = encode_source(pieces, [line])
    assert not set(ids) & set(pieces.tags.values())
    assert ids == pieces.encode([line])[0]


def test_in_the_target_language_there_are_no_tags(pieces):
    [ids] = pieces.encode(["<BT> to be"])
    assert not set(ids) & set(pieces.tags.values())
    assert pieces.decode([[pieces.tags["<BT>"], *pieces.encode(["to be"])[0]]]) == ["to be"]


def test_nothing_but_tags_is_no_text(pieces):
    assert encode_source(pieces, ["<BT>", "<BT> <2de> ", ""])[0] == [pieces.tags["<BT>"]]
    assert cut_tags("<BT> <2de>", pieces.tags)[1] == ""


def test_sentencepiece_itself_knows_the_tags_as_symbols(pieces):
    """Whoever takes the model file elsewhere can use them there, too."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces.model)
    assert [processor.piece_to_id(tag) for tag in TAGS] == list(pieces.tags.values())
    assert pieces.tags["<BT>"] in processor.encode("<BT> to be")
    assert min(pieces.tags.values()) == END_ID + 1


def test_tags_leave_the_other_pieces_alone():
    lines = LINES[0::3] + LINES[1::3]
    plain = learn_pieces(lines, size=57, character_coverage=1.0)
    tagged = learn_pieces(lines, size=60, character_coverage=1.0, tags=TAGS)
    by_them, by_us = plain.encode(lines), tagged.encode(lines)
    assert [[i + 3 for i in line] for line in by_them] == by_us


def foreign(**settings):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        **{"vocab_size": 60, "model_type": "bpe", "minloglevel": 3} | settings,
    )
    return model.getvalue()


@pytest.mark.parametrize("kind", ["user_defined_symbols", "control_symbols"])
def test_tags_of_a_model_made_elsewhere(kind):
    pieces = SentencePieces(foreign(**{kind: ["<x>", "<BT>"]}), tags=["<BT>"])
    [ids] = encode_source(pieces, ["<BT> to be"])
    assert ids == [pieces.tags["<BT>"], *pieces.encode(["to be"])[0]]
    assert pieces.decode([ids]) == ["to be"]


def test_other_symbols_of_a_model_made_elsewhere_stay_symbols():
    pieces = SentencePieces(foreign(user_defined_symbols=["<x>", "<BT>"]), tags=["<BT>"])
    without = SentencePieces(foreign(user_defined_symbols=["<x>", "<BT>"]))
    lines = ["<x> to be", "to <x> be", "to be"]
    assert pieces.encode(lines) == without.encode(lines)
    assert pieces.decode(pieces.encode(lines)) == lines


@pytest.mark.parametrize("name", ["<BT>", "to", "▁to", "<0x41>"])
def test_a_tag_that_a_model_does_not_have_is_refused(name):
    with pytest.raises(DataError, match=f"no symbol {name}") as caught:
        SentencePieces(foreign(), "my.model", tags=[name])
    assert caught.value.where == "my.model"
    assert "user_defined_symbols" in caught.value.fix


def test_tags_belong_to_the_source(tmp_path, pieces):
    target = learn_pieces(LINES, size=57, character_coverage=1.0)
    for name, content in Tokenizers(pieces, target).files.items():
        (tmp_path / name).write_bytes(content)
    loaded = load_tokenizers("sentencepiece", tmp_path, joint=False, tags=TAGS)
    assert loaded.source.tags == pieces.tags
    assert not loaded.target.tags


@pytest.mark.parametrize(
    ("tag", "wrong"),
    [
        ("", "0 characters"),
        (f"<{'x' * MAX_TAG_CHARACTERS}>", "66 characters"),
        ("<to de>", "space"),
        ("<a,b>", "comma"),
        ("<a▁b>", "U+2581"),
        ("de", "mistaken for a word"),
        ("2de>", "mistaken for a word"),
        ("<s>", "SentencePiece"),
        ("</s>", "SentencePiece"),
        ("<unk>", "SentencePiece"),
        ("<0xE4>", "SentencePiece"),
    ],
)
def test_what_cannot_be_a_tag(tag, wrong):
    assert wrong in tag_fault(tag)


@pytest.mark.parametrize("tag", ["<BT>", "<2de>", ">>deu<<", "__en__", "[news]", "🇩🇪"])
def test_what_can_be_a_tag(tag):
    assert not tag_fault(tag)
    learnt = learn_pieces(LINES, size=60, character_coverage=1.0, tags=[tag])
    assert encode_source(learnt, [f"{tag} to be"])[0][0] == learnt.tags[tag]
