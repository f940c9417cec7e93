import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.normalising import normalise
from unisono.text.normalise import Normalisation


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  two \t words \r", "two words"),
        ("no\u00a0break\u3000wide\u2028line\u0085next", "no break wide line next"),
        ("u\u0308ber", "\u00fcber"),
        ("\ufeffmark", "mark"),
        ("nul\x00 bell\x07 delete\x7f", "nul bell delete"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("e\u200b\u0301", "\u00e9"),
        ("a\u2581b", "a_b"),
        ("\u200e\u00ad \u200b", ""),
    ],
)
def test_a_line_is_written_in_one_way(line, expected):
    assert normalise(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "می\u200cخواهم",  # Persian is spelled with the non-joiner
        "क्\u200dष",  # and Hindi with the joiner
        "👩\u200d💻",
        "\u0600\u0661",  # a visible sign of category Cf
        "🏴\U000e0067\U000e0062\U000e007f",  # a flag made of tags
        "ﬁ ² Ａ",  # compatibility forms are different characters
    ],
)
def test_what_carries_meaning_stays(line):
    assert normalise(line) == line


@given(st.text())
def test_normalising_twice_changes_nothing(line):
    once = normalise(line)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert once == once.strip()
    assert not any(unicodedata.category(character) == "Cc" for character in once)


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_many_lines_at_once_are_the_same_as_one_by_one(lines):
    assert Normalisation()(lines) == [normalise(line) for line in lines]


def line_with(**options):
    """Return the normalisation of one line with these options."""
    return lambda line: Normalisation(**options)([line])[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("„So“, sagte er, “so” ‟x”", '"So", sagte er, "so" "x"'),
        ("« oui » ‹non› »ja«", '" oui " \'non\' "ja"'),
        ("it’s ‘one’ ‚zwei‘ ‛x", "it's 'one' 'zwei' 'x"),
        ("5′ 3″ `a´", "5′ 3″ `a´"),
        ("Groß", "Groß"),
    ],
)
def test_quotes_are_plain_only_if_asked(line, expected):
    assert line_with(plain_quotes=True)(line) == expected
    assert line_with()(line) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Über  GROẞ Straße", "über groß straße"),
        ("ΟΔΟΣ ΣΑΣ", "οδος σας"),
        ("I\u0307", "i\u0307"),
        ("„Ja“", "„ja“"),
        ("\u0391\u0342", "\u1fb6"),  # which have no capital in one
    ],
)
def test_text_is_in_lower_case_only_if_asked(line, expected):
    assert line_with(lowercase=True)(line) == expected
    assert line_with()(line) != expected


LINES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])))


@given(LINES, st.booleans(), st.booleans())
def test_options_keep_the_promises_of_plain_normalisation(lines, plain_quotes, lowercase):
    normalisation = Normalisation(plain_quotes, lowercase)
    once = normalisation(lines)
    assert len(once) == len(lines)
    assert normalisation(once) == once
    assert Normalisation()(once) == once
    assert once == [line for one in lines for line in normalisation([one])]
