"""Numbers, clock times and dates against a table written by hand."""

import pytest

from unisono.datasets.builtin.times import (
    clock,
    dates,
    english_cardinal,
    german_cardinal,
    ordinal_digits,
)


@pytest.mark.parametrize(
    ("hour", "minutes", "english", "german"),
    [
        (3, 30, "at half past three", "um halb vier"),
        (12, 30, "at half past twelve", "um halb eins"),
        (1, 0, "at one o'clock", "um ein Uhr"),
        (12, 0, "at twelve o'clock", "um zwölf Uhr"),
        (1, 10, "at ten past one", "um zehn nach eins"),
        (5, 15, "at a quarter past five", "um Viertel nach fünf"),
        (5, 45, "at a quarter to six", "um Viertel vor sechs"),
        (12, 40, "at twenty to one", "um zwanzig vor eins"),
    ],
)
def test_the_clock(hour, minutes, english, german):
    assert clock(hour, minutes) == (english, german)


def test_dates():
    plain, ordinal = dates(3, "March", 2021)
    assert plain == ("on 3 March 2021", "am 3. März 2021")
    assert ordinal == ("on March 3rd, 2021", "am 3. März 2021")
    assert dates(22, "May")[1] == ("on May 22nd", "am 22. Mai")


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (23, "twenty-three", "dreiundzwanzig"),
        (30, "thirty", "dreißig"),
        (67, "sixty-seven", "siebenundsechzig"),
        (99, "ninety-nine", "neunundneunzig"),
    ],
)
def test_cardinals(number, english, german):
    assert (english_cardinal(number), german_cardinal(number)) == (english, german)


def test_ordinals():
    expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd"]
    assert [ordinal_digits(int(word[:-2])) for word in expected] == expected
