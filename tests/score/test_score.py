import json
import random
import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

from unisono.errors import DataError
from unisono.score import score_bleu, score_files
from unisono.score.files import aligned_sentences

AWKWARD = [
    ('A man, who said: "no" - 3.5 %.', "A man, who said 'no': 3,5 %!"),
    ("", "An empty translation counts."),
    ("Zwei  Leerzeichen \u00a0 hier", "Zwei Leerzeichen hier"),
    ("line\u2028separator\x85and\x0cmore", "line separator and more"),
    ("carriage\r", "carriage\r"),
    ("&lt;b&gt; &amp; &quot;x&quot;", '<b> & "x"'),
    ("漢字 かな", "漢字かな"),
    ("looks tokenized .", "looks tokenized ."),
    ("  leading and trailing  ", "leading and trailing"),
    ("the the the the", "the cat sat"),
]


def many(count=300):
    draw = random.Random(2)
    words = ["a", "b", "c", "the", "The", ",", ".", "(", ")", "don't", "1.5", "x-y", "Ärger"]
    pairs = []
    for _ in range(count):
        reference = draw.choices(words, k=draw.randint(1, 20))
        translation = [w if draw.random() < 0.8 else draw.choice(words) for w in reference]
        pairs.append((" ".join(translation[: draw.randint(0, 25)]), " ".join(reference)))
    return pairs


def written(directory, name, lines):
    path = directory / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


@pytest.mark.ranks
@pytest.mark.parametrize("pairs", [AWKWARD, many(), AWKWARD[6:7]], ids=["awkward", "many", "0"])
def test_the_score_is_what_the_sacrebleu_command_prints(tmp_path, pairs):
    translations = written(tmp_path, "translations", [pair[0] for pair in pairs])
    references = written(tmp_path, "references", [pair[1] for pair in pairs])
    command = [sys.executable, "-m", "sacrebleu", str(references), "-i", str(translations)]
    printed = subprocess.run(
        [*command, "-m", "bleu", "-b", "-w", "4"], capture_output=True, check=True, text=True
    ).stdout
    assert f"{score_files(translations, references).score:.4f}" == printed.strip()
    assert score_bleu(*zip(*pairs, strict=True)) == score_files(translations, references)


def test_the_signature_says_how_it_was_computed():
    signature = score_bleu(["a b c d"], ["a b c d"]).signature
    assert signature.startswith(
        "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2."
    )


@pytest.mark.parametrize("pairs", [many(301), AWKWARD, many(7)], ids=["many", "awkward", "few"])
@pytest.mark.parametrize("at_once", [4_000_000, 1000])
def test_the_interval_and_signature_are_those_of_sacrebleus_own_bootstrap(
    pairs, at_once, monkeypatch
):
    # As an attribute of `unisono`, `score` is the function of the API.
    monkeypatch.setattr(sys.modules["unisono.score.resample"], "DRAWN_AT_ONCE", at_once)
    translations, references = map(list, zip(*pairs, strict=True))
    metric = BLEU(force=True)
    theirs = metric.corpus_score(translations, [references], n_bootstrap=1000)
    told = json.loads(theirs.format(width=6, signature="nrefs:1", is_json=True))
    ours = score_bleu(translations, references)
    assert (ours.high - ours.low) / 2 == pytest.approx(told["confidence_var"], abs=2e-4)
    assert ours.low <= ours.score <= ours.high
    assert ours.signature == str(metric.get_signature())


def test_an_interval_needs_sentences_that_differ():
    same = score_bleu(["a b c d e"] * 9, ["a b c d f"] * 9)
    assert same.low == same.high == pytest.approx(same.score)
    nothing = score_bleu(["", "x"], ["a b", "c d"])
    assert (nothing.low, nothing.score, nothing.high) == (0.0, 0.0, 0.0)


def test_the_same_text_scores_full_marks_and_another_case_does_not():
    assert score_bleu(["One two three four."], ["One two three four."]).score == pytest.approx(
        100
    )
    assert score_bleu(["one Two three four."], ["One two three four."]).score < 70


def test_a_missing_last_line_feed_changes_nothing(tmp_path):
    whole = written(tmp_path, "whole", ["a b c d", "e"])
    torn = tmp_path / "torn"
    torn.write_bytes(b"a b c d\ne")
    assert score_files(torn, whole) == score_files(whole, whole)


def test_unequal_files_are_refused_with_both_counts(tmp_path):
    one, two = written(tmp_path, "one", ["a"]), written(tmp_path, "two", ["a", "b"])
    with pytest.raises(DataError, match=r"one has 1 lines; .*two has 2"):
        score_files(one, two)
    with pytest.raises(DataError, match="1 translations for 2 references"):
        score_bleu(["a"], ["a", "b"])


@pytest.mark.parametrize("line", ["word " * 200_000, "a" * 1_000_000, "😀" * 250_000])
def test_a_line_that_no_metric_gets_done_with_is_refused(tmp_path, line):
    good, long = written(tmp_path, "good", ["a", "b"]), written(tmp_path, "long", ["a", line])
    for paths in ([good, long], [long, good]):
        with pytest.raises(DataError, match="over 100,000 bytes") as refused:
            aligned_sentences(paths)
        assert refused.value.where == f"{long}, line 2"
    whole = written(tmp_path, "whole", ["a" * 100_000])
    assert aligned_sentences([whole]) == [["a" * 100_000]]


def test_bad_files_are_named(tmp_path):
    good, empty = written(tmp_path, "good", ["a"]), written(tmp_path, "empty", [])
    latin = tmp_path / "latin"
    latin.write_bytes("a\nä\n".encode("latin1"))
    with pytest.raises(DataError, match="latin, line 2"):
        score_files(latin, good)
    with pytest.raises(DataError, match="No such file"):
        score_files(tmp_path / "absent", good)
    with pytest.raises(DataError, match="is empty"):
        score_files(empty, empty)
    with pytest.raises(DataError, match="nothing to score"):
        score_bleu([], [])
