"""Names of languages, and which one is meant or found."""

import pytest

from unisono.serve import languages
from unisono.serve.languages import Detection, detect, language_name, meant
from unisono.serve.requests import RequestError


@pytest.mark.parametrize(
    ("code", "found"),
    [("de", "de"), ("DE", "de"), ("de-AT", "de"), ("pt_BR", "pt-BR"), ("pt", ""), ("xx", "")],
)
def test_a_code_means_the_language_that_is_served(code, found):
    assert meant(code, ["en", "de", "pt-BR"]) == found


def test_languages_have_english_names():
    assert [language_name(code) for code in ("de", "pt-BR", "qqq")] == [
        "German",
        "Portuguese",
        "qqq",
    ]


def test_the_likeliest_comes_first():
    text = "Der Hund läuft über die Wiese und freut sich seines Lebens."
    found = detect(text, ["en", "de", "fr"])
    assert found[0].language == "de"
    assert found[0].confidence > 90 > found[1].confidence


def test_a_language_that_is_not_served_gives_little_confidence():
    text = "Der Hund läuft über die Wiese und freut sich seines Lebens."
    assert detect(text, ["en", "fr"])[0].confidence < 1


def test_without_the_package_only_a_single_language_is_an_answer(monkeypatch):
    monkeypatch.setattr(languages, "PACKAGE", "no_such_package")
    assert detect("whatever", ["en"]) == [Detection("en", 0.0)]
    with pytest.raises(RequestError, match="cannot be detected") as found:
        detect("whatever", ["en", "de"])
    assert found.value.status == 501
