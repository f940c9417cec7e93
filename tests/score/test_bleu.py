import random
import subprocess
import sys

import pytest

from unisono.errors import DataError
from unisono.score import score_bleu, score_files

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
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.")


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
