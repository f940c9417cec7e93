import importlib.util
from pathlib import Path

import pytest

from unisono.config.settings import CorpusSettings
from unisono.errors import ConfigError
from unisono.prepare.first_pass.languages import (
    _LANGUAGES,
    LanguageFilter,
    ScriptFilter,
    check_installed,
)

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


TEXTS = {
    "en": "The naïve café costs 5 €.",
    "de": "Größe, Straße, Übung",
    "vi": "Tiếng Việt có dấu",
    "tr": "ığdır ve şişe",
    "ru": "Добрый день, мир",
    "uk": "Їжак іде ґанком",
    "el": "Καλημέρα σας, πῶς",
    "ar": "صباح الخير",
    "fa": "می‌خواهم گچ",
    "he": "בוקר טוב",
    "hi": "नमस्ते दुनिया क्षमा",
    "bn": "সুপ্রভাত বাংলা",
    "ta": "காலை வணக்கம்",
    "th": "สวัสดีตอนเช้า",
    "ka": "დილა მშვიდობისა",
    "hy": "Բարի լույս",
    "am": "እንደምን አደሩ",
    "zh": "早上好，世界。",
    "ja": "おはようございます、カタカナ漢字ー",
    "ko": "좋은 아침입니다",
}
SHARED_BY = {"zh": {"ja", "ko"}, "ja": set(), "ar": {"fa"}, "fa": {"ar"}}
LATIN, CYRILLIC = {"en", "de", "vi", "tr"}, {"ru", "uk"}


def allowed(text, language):
    if text == language or {text, language} <= LATIN or {text, language} <= CYRILLIC:
        return True
    return language in SHARED_BY.get(text, ())


@pytest.mark.parametrize("language", TEXTS)
def test_each_language_is_known_by_its_script(language):
    wrong = set(ScriptFilter(language).wrong(list(TEXTS.values())))
    found = {name for index, name in enumerate(TEXTS) if index in wrong}
    assert found == {name for name in TEXTS if not allowed(name, language)}


@pytest.mark.parametrize(
    ("language", "line", "wrong"),
    [
        ("en", "abc где", False),  # a half is not more than a half
        ("en", "abc где-то", True),
        ("ru", "abc где", False),
        ("ru", "abcd где", True),
        ("ru", "1234 !? – …", False),
        ("en", "", False),
        ("xx", "где", False),
        ("", "где", False),
        ("en-US", "где", True),
        ("eng", "где", True),
        ("sr", "где", False),
        ("sr", "gde", False),
        ("sr-Latn", "где", True),
        ("sr_Cyrl", "gde", True),
        ("zh_TW", "早上好", False),
        ("zh-Hant", "hello", True),
        ("ja", "Ｈｅｌｌｏ、ホテル Tokyo", True),
    ],
)
def test_more_than_half_of_the_letters_decide(language, line, wrong):
    assert bool(list(ScriptFilter(language).wrong([line]))) is wrong


def test_the_documentation_lists_every_language_that_is_judged():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "corpus.md").read_text("utf-8")
    section = page.partition("\n## Scripts\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if " | " in line]
    listed = {names.replace(",", ""): codes for names, codes in rows[1:]}
    assert listed == _LANGUAGES
