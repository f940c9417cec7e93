"""Whole texts: what has to be translated, and what comes out again."""

import random

import pytest

from unisono.text.documents import plan_document
from unisono.text.long_sentences import split_to_fit


def always(_):
    return True


def plan(text, fits=always, language="en"):
    return plan_document(text, markup=False, language=language, fits=fits)


def shouted(document):
    return document.assemble([sentence.upper() for sentence in document.sentences])


def test_lines_paragraphs_and_white_space_are_kept():
    text = "  One. Two!\r\n\r\n\tThree?  Four.\n\n\nfive six\u2028seven\n"
    document = plan(text)
    assert document.sentences == (
        "One.",
        "Two!",
        "Three?",
        "Four.",
        "five six",
        "seven",
    )
    assert shouted(document) == text.upper()


@pytest.mark.parametrize("text", ["", " ", "\n\n", "42", "***\n---\n3.50 €", "\ufeff"])
def test_a_text_without_letters_has_nothing_to_translate(text):
    document = plan(text)
    assert document.sentences == ()
    assert document.assemble([]) == text


def test_list_marks_and_numbers_stay():
    document = plan("- one thing\n* two\n3. three things. And more.\n> said\n## Head")
    assert document.sentences == (
        "one thing",
        "two",
        "three things.",
        "And more.",
        "said",
        "Head",
    )
    assert (
        shouted(document) == "- ONE THING\n* TWO\n3. THREE THINGS. AND MORE.\n> SAID\n## HEAD"
    )


def test_a_sentence_that_occurs_twice_is_translated_once():
    document = plan("Yes. No. Yes.\nYes.")
    assert document.sentences == ("Yes.", "No.")
    assert document.assemble(["Ja.", "Nein."]) == "Ja. Nein. Ja.\nJa."


def test_a_space_parts_translations_where_the_original_needs_none():
    document = plan("こんにちは。元気ですか？", language="ja")
    assert document.sentences == ("こんにちは。", "元気ですか？")
    assert document.assemble(["Hello.", "How are you?"]) == "Hello. How are you?"
    assert document.assemble(["你好。", "你好吗？"]) == "你好。你好吗？"


def test_a_wrong_number_of_translations_is_an_error():
    with pytest.raises(ValueError, match="1 translations, 2 needed"):
        plan("One. Two.").assemble(["Eins."])


def up_to(count):
    return lambda text: len(text) <= count


def parts(text, fits, language=""):
    return [text[start:end] for start, end in split_to_fit(text, fits, language)]


def test_a_long_sentence_is_split_between_clauses_near_the_middle():
    text = "When it rains, the streets of the old town are empty, and nobody goes out."
    assert parts(text, up_to(60)) == [
        "When it rains, the streets of the old town are empty,",
        "and nobody goes out.",
    ]


def test_it_is_split_between_sentences_before_clauses():
    text = "It rains, and it rains, and it rains. Nobody, really nobody, goes out."
    assert parts(text, up_to(50), "en") == [
        "It rains, and it rains, and it rains.",
        "Nobody, really nobody, goes out.",
    ]


def test_without_clauses_it_is_split_at_a_space_and_without_spaces_anywhere():
    assert parts("one two three four five six", up_to(15)) == ["one two three", "four five six"]
    assert parts("a" * 30, up_to(10)) == ["a" * 10] * 3


def test_an_accent_is_not_parted_from_its_letter():
    text = "e\u0301" * 11
    assert all(part[0] == "e" for part in parts(text, up_to(7)))


def test_a_character_that_does_not_fit_stays():
    assert parts("ab", lambda _: False) == ["a", "b"]


def test_nothing_is_ever_left_out():
    generator = random.Random(3)
    for _ in range(300):
        text = "".join(
            generator.choice("ab ,.;\n。é\u0301—(") for _ in range(generator.randint(0, 200))
        )
        limit = generator.randint(1, 40)
        fit = parts(text, up_to(limit))
        assert "".join("".join(fit).split()) == "".join(text.split())
        assert all(part == part.strip() for part in fit)
        document = plan(text, fits=up_to(limit))
        assert "".join(document.assemble(document.sentences).split()) == "".join(text.split())


def test_a_megabyte_in_one_line_is_split_without_a_loss():
    document = plan("word " * 200_000, fits=up_to(500))
    assert document.assemble(document.sentences).count("word") == 200_000
