import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.config.settings import CorpusSettings
from unisono.prepare.cleaning import Drops, HeldOut, LengthFilter, TextFilter

LONG = "This sentence is long enough to be telling."
LANG = "Dieser Satz ist lang genug, um etwas zu verraten."


def text_filter(*held_out, **settings):
    return TextFilter(CorpusSettings(directory="x", **settings), HeldOut(held_out))


def test_reasons_are_named():
    judge = text_filter(("Thanks.", "Danke."))
    assert judge.reason("", "a") == judge.reason("a", "") == "empty"
    assert judge.reason("a", "a") == "identical"
    assert judge.reason("a", "b") == ""
    assert judge.reason("a", "b") == "duplicate"
    assert judge.reason("a", "c") == ""
    assert judge.reason("Thanks.", "Danke.") == "overlap with valid/test"


def test_a_long_held_out_sentence_is_kept_out_on_either_side():
    judge = text_filter((LONG, LANG))
    assert judge.reason(LONG, "Etwas anderes.") == "overlap with valid/test"
    assert judge.reason("Something else.", LANG) == "overlap with valid/test"
    assert judge.reason(LONG.lower(), LANG.lower()) == ""


def test_a_short_held_out_sentence_may_be_translated_otherwise():
    judge = text_filter(("Thanks.", "Danke."))
    assert judge.reason("Thanks.", "Vielen Dank.") == ""


def test_where_a_pair_is_split_matters():
    judge = text_filter()
    assert judge.reason("a b", "c") == ""
    assert judge.reason("a", "b c") == ""


def test_both_checks_can_be_turned_off():
    judge = text_filter((LONG, LANG), drop_duplicates=False, drop_overlap=False)
    assert judge.reason(LONG, LANG) == judge.reason(LONG, LANG) == ""


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (10, 10, ""),
        (11, 10, "too long"),
        (10, 11, "too long"),
        (8, 2, ""),
        (9, 2, "length ratio"),
        (2, 9, "length ratio"),
        (40, 1, "too long"),
    ],
)
def test_limits_are_the_last_lengths_allowed(source, target, reason):
    limits = LengthFilter(CorpusSettings(directory="x", max_pieces=10, max_length_ratio=4.0))
    assert limits.reason(source, target) == reason


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1))
def test_many_pairs_at_once_are_judged_like_one_by_one(lengths):
    settings = CorpusSettings(directory="x", max_pieces=20, max_length_ratio=2.5)
    limits = LengthFilter(settings)
    kept = limits.kept([[0] * s for s, _ in lengths], [[0] * t for _, t in lengths])
    assert kept.tolist() == [not limits.reason(s, t) for s, t in lengths]


def test_drops_keep_a_few_clipped_examples():
    drops = Drops()
    for number in range(5):
        drops.add("empty", f"{number}" * 500, "")
    summary = drops.summary()["empty"]
    assert summary.count == 5
    assert summary.examples == [(f"{number}" * 200, "") for number in range(3)]
