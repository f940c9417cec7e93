from itertools import count
from pathlib import Path

import numpy as np
import pytest

from unisono.config.settings import CorpusSettings, Data
from unisono.prepare.first_pass.chunks import Chunk
from unisono.prepare.first_pass.filters import PairFilter, hashes_of
from unisono.prepare.first_pass.held_out import HeldOut
from unisono.prepare.inputs import RawPair
from unisono.prepare.job import PrepareJob

LONG = "This sentence is long enough to be telling."
LANG = "Dieser Satz ist lang genug, um etwas zu verraten."
RAW = RawPair("train", "train.0", "[[data.train]] number 1", Path("a.en"), Path("a.de"))


@pytest.fixture
def judge(tmp_path):
    """Judge some pairs; return their reasons, with the kept text in between."""
    numbers = count()

    def judge(*pairs, held_out=(), data=Data(), **settings):  # noqa: B008 — it is frozen
        assignment = PrepareJob(data, CorpusSettings(directory="x", **settings), [], 0)
        texts = ["".join(f"{line}\n" for line in side) for side in zip(*pairs, strict=True)]
        chunk = Chunk(RAW, next(numbers), 0, tuple(map(str.encode, texts)))
        judged = PairFilter(assignment, HeldOut(held_out), tmp_path)(chunk)
        kept = list(zip(*judged.text.read(), strict=True))
        assert len(judged.hashes) == judged.text.pairs
        return kept, {reason: drop.count for reason, drop in judged.dropped.items()}

    return judge


def test_reasons_are_named(judge):
    pairs = [("", "a"), ("a", " "), ("a", "a "), ("a", "b"), ("a", "c"), ("Thanks.", "Danke.")]
    assert judge(*pairs, held_out=[("Thanks.", "Danke.")]) == (
        [("a", "b"), ("a", "c")],
        {"empty": 2, "identical": 1, "overlap with valid/test": 1},
    )


def test_a_long_held_out_sentence_is_kept_out_on_either_side(judge):
    pairs = [(LONG, "Etwas anderes."), ("Something else.", LANG), (LONG.lower(), LANG.lower())]
    kept, dropped = judge(*pairs, held_out=[(LONG, LANG)])
    assert kept == pairs[2:]
    assert dropped == {"overlap with valid/test": 2}


def test_a_short_held_out_sentence_may_be_translated_otherwise(judge):
    assert judge(("Thanks.", "Vielen Dank."), held_out=[("Thanks.", "Danke.")])[1] == {}


def test_checks_can_be_turned_off(judge):
    pairs = [(LONG, LANG), ("a", "a"), ("да, конечно", "ja, sicher")]
    off = {"drop_overlap": False, "drop_identical": False, "drop_wrong_script": False}
    assert judge(*pairs, held_out=[(LONG, LANG)], **off) == (pairs, {})
    assert judge(*pairs, held_out=[(LONG, LANG)])[0] == []


def test_either_side_may_be_in_the_wrong_script_or_language(judge):
    french = "Le petit chat noir est assis sur la table de la cuisine."
    pairs = [("Добрый день", "Guten Tag"), ("Good day", "Добрый день"), (french, LANG)]
    assert judge(*pairs, (LONG, french), (LONG, LANG), drop_wrong_language=True) == (
        [(LONG, LANG)],
        {"wrong script": 2, "wrong language": 2},
    )
    assert judge(pairs[0], data=Data(source_language="ru"))[1] == {}


def test_text_is_normalised_as_told(judge):
    pair = ("“It\u2019s”\u00a0 HERE", "Ａ")
    assert judge(pair)[0] == [("“It’s” HERE", "Ａ")]
    assert judge(pair, plain_quotes=True, lowercase=True)[0] == [('"it\'s" here', "ａ")]


def test_hashes_tell_pairs_apart_also_by_where_they_are_split():
    source, target = ["ab", "a", "ab", "a"], ["c", "bc", "c", "b"]
    first, second, third, fourth = hashes_of(source, target)
    assert first == third
    assert len({first, second, fourth}) == 3
    assert hashes_of([], []).dtype == np.uint64
