from hypothesis import given
from hypothesis import strategies as st

from unisono.text.load import BytePieces, load_tokenizer
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_text_survives_the_round_trip(lines):
    pieces = BytePieces()
    encoded = pieces.encode(lines)
    assert pieces.decode(encoded) == lines
    assert all(END_ID < i < pieces.size for line in encoded for i in line)


def test_special_ids_are_passed_over():
    pieces = BytePieces()
    framed = [BEGIN_ID, *pieces.encode(["ä"])[0], END_ID, PADDING_ID]
    assert pieces.decode([framed]) == ["ä"]


def test_half_a_character_does_not_stop_the_decoder():
    pieces = BytePieces()
    assert pieces.decode([pieces.encode(["ä"])[0][:1]]) == ["\ufffd"]


def test_loads_by_its_kind(tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(BytePieces.model)
    assert load_tokenizer(BytePieces.kind, path).size == 260
