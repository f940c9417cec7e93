"""The sentence splitter, on a labelled sample in many languages and on texts without end."""

from pathlib import Path

import pytest

from unisono.text.sentence_split import known_languages, split_sentences

SAMPLE = Path(__file__).with_name("sentences.txt")
# Both are stated in docs/how-to/translating.md.
SHARE_OF_TEXTS = 0.99
SHARE_WITHOUT_LANGUAGE = 0.97


def cases():
    language = ""
    for line in SAMPLE.read_text("utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif line and not line.startswith("#"):
            yield language, line


CASES = list(cases())


def marked(text, language):
    """Return `text` with a bar before each sentence but the first."""
    starts = [start for start, _ in split_sentences(text, language)][1:]
    for start in reversed(starts):
        text = f"{text[:start]}|{text[start:]}"
    return text


def wrong(code):
    return [
        f"{language}: {marked(line.replace('|', ''), code(language))} (should be: {line})"
        for language, line in CASES
        if marked(line.replace("|", ""), code(language)) != line
    ]


def test_the_sample_is_large_enough_to_mean_something():
    assert len(CASES) >= 300
    assert len({language for language, _ in CASES}) >= 6
    assert len({line for _, line in CASES}) == len(CASES)


def test_nearly_all_texts_of_the_sample_are_split_as_a_person_would():
    mistakes = wrong(lambda language: language)
    assert 1 - len(mistakes) / len(CASES) >= SHARE_OF_TEXTS, "\n".join(mistakes)


def test_an_unknown_language_costs_a_little():
    mistakes = wrong(lambda _: "")
    assert 1 - len(mistakes) / len(CASES) >= SHARE_WITHOUT_LANGUAGE, "\n".join(mistakes)


@pytest.mark.parametrize("language", ["", "de", "de-AT", "pt_BR", "xx"])
def test_spans_cover_everything_but_white_space(language):
    for _, line in CASES:
        text = f"  {line}\n\n{line}\t"
        spans = split_sentences(text, language)
        assert all(start < end for start, end in spans)
        assert "".join(text[start:end] for start, end in spans).replace(" ", "") == (
            "".join(text.split())
        )
        assert spans == sorted(spans)


def test_a_blank_line_ends_a_sentence_and_a_single_line_break_does_not():
    text = "one\ntwo\n \nthree"
    assert [text[a:b] for a, b in split_sentences(text)] == ["one\ntwo", "three"]


def test_every_list_is_of_words_without_their_last_full_stop():
    assert {"en", "de", "fr", "es", "ru", "el"} <= set(known_languages())
    for language in known_languages():
        assert split_sentences("A. B. C", language)


@pytest.mark.parametrize("text", ["." * 20_000, "a. " * 7000, "「" * 20_000, "a.b" * 7000])
def test_hostile_texts_are_split_in_linear_time(text):
    split_sentences(text, "en")


def test_an_empty_text_has_no_sentences():
    assert split_sentences("") == split_sentences(" \n\n ") == []
