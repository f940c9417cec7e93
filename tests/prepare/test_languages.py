import importlib.util

import pytest

from unisono.config.settings import CorpusSettings
from unisono.errors import ConfigError
from unisono.prepare.first_pass.languages import LanguageFilter, check_installed

GERMAN = "Dieser deutsche Satz ist lang genug, um ihn sicher zu erkennen."
FRENCH = "Cette phrase française est assez longue pour être reconnue."


def wrong(language, *lines):
    return list(LanguageFilter(language).wrong(lines, range(len(lines))))


@pytest.fixture
def installed():
    if importlib.util.find_spec("py3langid") is None:
        pytest.skip("py3langid is not installed")


@pytest.mark.usefixtures("installed")
def test_long_sentences_of_other_languages_are_found():
    assert wrong("de", GERMAN, FRENCH) == [1]
    assert wrong("fr-CA", GERMAN, FRENCH) == [0]


@pytest.mark.usefixtures("installed")
def test_what_is_short_or_unclear_is_left_alone():
    names = "New York City, Coca-Cola Inc., Rolling Stones, Los Angeles Lakers (2004)"
    assert wrong("de", "Oui, je sais.", names) == []


@pytest.mark.usefixtures("installed")
def test_languages_that_are_nearly_alike_are_not_told_apart():
    danish = "Denne danske sætning er lang nok til at blive genkendt af alle."
    assert wrong("en", danish) == [0]
    assert wrong("no", danish) == wrong("nn", danish) == []


@pytest.mark.usefixtures("installed")
def test_only_the_lines_asked_for_are_judged_and_unknown_languages_never():
    assert list(LanguageFilter("de").wrong([FRENCH, FRENCH], [1])) == [1]
    assert wrong("xx", FRENCH) == wrong("", FRENCH) == []


def test_a_missing_package_is_told_before_anything_else(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_installed(CorpusSettings(directory="x"))
    with pytest.raises(ConfigError, match=r"pip install 'unisono\[languages\]'"):
        check_installed(CorpusSettings(directory="x", drop_wrong_language=True))
