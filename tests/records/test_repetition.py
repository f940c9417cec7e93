"""What repeats itself, against looking for every block of words at every place."""

import random

import pytest

from unisono.records.sentence_losses import MOST_WORDS, TIMES, count_repeating, repeats_itself


def by_looking_everywhere(text):
    words = text.lower().split()
    return any(
        words[at : at + size] * TIMES == words[at : at + size * TIMES]
        for size in range(1, MOST_WORDS + 1)
        for at in range(len(words) - size * TIMES + 1)
    )


def test_it_finds_what_looking_everywhere_finds():
    dice = random.Random(1)
    found = []
    for _ in range(2000):
        text = " ".join(dice.choices("ab", k=dice.randint(0, 30)))
        found.append(repeats_itself(text))
        assert found[-1] == by_looking_everywhere(text), text
    assert 200 < sum(found) < 1800


@pytest.mark.parametrize(
    ("text", "found"),
    [("so so so .", False), ("So so so so .", True), ("a b c d " * 4, True), ("", False)],
)
def test_four_times_in_a_row_is_a_repetition(text, found):
    assert repeats_itself(text) == found


def test_where_the_reference_repeats_itself_a_translation_may():
    stuck = "na na na na"
    assert count_repeating([stuck, stuck, "gut ."], [stuck, "well .", stuck]) == 1
