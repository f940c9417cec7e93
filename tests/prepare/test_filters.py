from itertools import count
from pathlib import Path

import numpy as np
import pytest

from unisono.config.settings import CorpusSettings, Data
from unisono.prepare.first_pass.clean_text import ChunkCleaner, HeldOutSet, hashes_of
from unisono.prepare.first_pass.filters import Drops
from unisono.prepare.first_pass.read_files import Chunk
from unisono.prepare.job import PrepareJob, RawPair

LONG = "This sentence is long enough to be telling."
LANG = "Dieser Satz ist lang genug, um etwas zu verraten."
RAW = RawPair("train", "train.0", "[[data.train]] number 1", Path("a.en"), Path("a.de"))


@pytest.fixture
def clean(tmp_path):
    """Clean some pairs; return their reasons, with the kept text in between."""
    numbers = count()

    def clean(*pairs, held_out=(), data=Data(), **settings):  # noqa: B008 — it is frozen
        job = PrepareJob(data, CorpusSettings(directory="x", **settings), [], 0)
        texts = ["".join(f"{line}\n" for line in side) for side in zip(*pairs, strict=True)]
        chunk = Chunk(RAW, next(numbers), 0, tuple(map(str.encode, texts)))
        held = [HeldOutSet(RAW, None, [], held_out)]
        cleaned = ChunkCleaner(job, held, tmp_path)(chunk)
        kept = list(zip(*cleaned.text.read(), strict=True))
        assert len(cleaned.hashes) == len(cleaned.text.keep)
        return kept, {reason: drop.count for reason, drop in cleaned.dropped.items()}

    return clean


def test_reasons_are_named(clean):
    pairs = [("", "a"), ("a", " "), ("a", "a "), ("a", "b"), ("a", "c"), ("Thanks.", "Danke.")]
    assert clean(*pairs, held_out=[("Thanks.", "Danke.")]) == (
        [("a", "b"), ("a", "c")],
        {"empty": 2, "identical": 1, "overlap with valid/test": 1},
    )


def test_a_long_held_out_sentence_is_kept_out_on_either_side(clean):
    pairs = [(LONG, "Etwas anderes."), ("Something else.", LANG), (LONG.lower(), LANG.lower())]
    kept, dropped = clean(*pairs, held_out=[(LONG, LANG)])
    assert kept == pairs[2:]
    assert dropped == {"overlap with valid/test": 2}


def test_a_short_held_out_sentence_may_be_translated_otherwise(clean):
    assert clean(("Thanks.", "Vielen Dank."), held_out=[("Thanks.", "Danke.")])[1] == {}


def test_checks_can_be_turned_off(clean):
    pairs = [(LONG, LANG), ("a", "a"), ("да, конечно", "ja, sicher")]
    off = {"drop_overlap": False, "drop_identical": False, "drop_wrong_script": False}
    assert clean(*pairs, held_out=[(LONG, LANG)], **off) == (pairs, {})
    assert clean(*pairs, held_out=[(LONG, LANG)])[0] == []


def test_either_side_may_be_in_the_wrong_script_or_language(clean):
    french = "Le petit chat noir est assis sur la table de la cuisine."
    pairs = [("Добрый день", "Guten Tag"), ("Good day", "Добрый день"), (french, LANG)]
    assert clean(*pairs, (LONG, french), (LONG, LANG), drop_wrong_language=True) == (
        [(LONG, LANG)],
        {"wrong script": 2, "wrong language": 2},
    )
    assert clean(pairs[0], data=Data(source_language="ru"))[1] == {}


def test_text_is_normalised_as_told(clean):
    pair = ("“It\u2019s”\u00a0 HERE", "Ａ")
    assert clean(pair)[0] == [("“It’s” HERE", "Ａ")]
    assert clean(pair, plain_quotes=True, lowercase=True)[0] == [('"it\'s" here', "ａ")]


def test_hashes_tell_pairs_apart_also_by_where_they_are_split():
    source, target = ["ab", "a", "ab", "a"], ["c", "bc", "c", "b"]
    first, second, third, fourth = hashes_of(source, target)
    assert first == third
    assert len({first, second, fourth}) == 3
    assert hashes_of([], []).dtype == np.uint64


def test_drops_keep_a_few_clipped_examples():
    drops = Drops()
    for number in range(5):
        drops.add("empty", f"{number}" * 500, "")
    summary = drops.summary()["empty"]
    assert summary.count == 5
    assert summary.examples == [(f"{number}" * 200, "") for number in range(3)]


def test_drops_of_parts_add_up_to_those_of_the_whole():
    pairs = [("empty", "a"), ("too long", "b"), ("empty", "c"), ("empty", "d"), ("empty", "e")]
    whole, parts = Drops(), Drops()
    for reason, text in pairs:
        whole.add(reason, text, "")
    for start in range(0, len(pairs), 2):
        part = Drops()
        for reason, text in pairs[start : start + 2]:
            part.add(reason, text, "")
        parts.add_all(part.summary())
    assert parts.summary() == whole.summary()


def test_the_order_of_reasons_does_not_depend_on_what_came_first():
    drops = Drops()
    for reason in ("something new", "length ratio", "empty", "invalid UTF-8"):
        drops.add(reason, "", "")
    assert list(drops.summary()) == ["invalid UTF-8", "empty", "length ratio", "something new"]
