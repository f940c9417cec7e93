"""Find lines in the wrong script or in the wrong language.

Scripts are ranges of letters; languages have codes such as "de", "deu", "pt-BR" or "sr-Latn".
Lines of a language that is not in the table pass the script filter.

The language filter needs the package py3langid. It classifies long sentences only, drops a
line only if the classifier is nearly certain, and does not separate very similar languages.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from unisono.config.settings import CorpusSettings
from unisono.errors import ConfigError

_LATIN = (
    "\u0041-\u005a\u0061-\u007a\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6"
    "\u00f8-\u02b8\u1d00-\u1d2a\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff"
    "\uab30-\uab64\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_HAN = (
    "\u3005\u3006\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_KANA = "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
_LETTERS = {
    "Latn": _LATIN,
    "Cyrl": "\u0400-\u052f\u1c80-\u1c8a\u1d2b\u1d78\u2de0-\u2dff\ua640-\ua69f",
    "Grek": "\u0370-\u03ff\u1f00-\u1fff",
    "Arab": "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Hebr": "\u0591-\u05f4\ufb1d-\ufb4f",
    "Deva": "\u0900-\u097f\ua8e0-\ua8ff",
    "Beng": "\u0980-\u09fe",
    "Guru": "\u0a01-\u0a76",
    "Gujr": "\u0a81-\u0aff",
    "Orya": "\u0b01-\u0b77",
    "Taml": "\u0b82-\u0bfa",
    "Telu": "\u0c00-\u0c7f",
    "Knda": "\u0c80-\u0cf3",
    "Mlym": "\u0d00-\u0d7f",
    "Sinh": "\u0d81-\u0df4",
    "Thai": "\u0e01-\u0e5b",
    "Laoo": "\u0e81-\u0edf",
    "Tibt": "\u0f00-\u0fda",
    "Mymr": "\u1000-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f",
    "Geor": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2d",
    "Ethi": "\u1200-\u139f\u2d80-\u2dde\uab01-\uab2e",
    "Khmr": "\u1780-\u17f9",
    "Mong": "\u1820-\u18aa",
    "Armn": "\u0531-\u058f\ufb13-\ufb17",
    "Hani": _HAN,
    "Jpan": _HAN + _KANA,
    "Kore": _HAN + _HANGUL,
}
_LETTERS |= dict.fromkeys(("Hans", "Hant"), _HAN)

_LANGUAGES = {
    "Latn": "af als an ast ay az bm br bs ca ceb co crh cs cy da de dsb ee en eo es et eu ff "
    "fi fil fo fr fur fy ga gd gl gn gsw gv ha haw hr hsb ht hu id ig ilo is it jv kl kw la lb "
    "lg li lij lmo ln lt ltg lv mg mi ms mt nap nb nds nl nn no nso ny oc om pap pl pms pt qu "
    "rm rn ro rw sc scn sco se sk sl sm sn so sq ss st su sv sw szl tet tk tl tn to tpi tr ts "
    "tw ty uz vec vi vls vo wa war wo xh yo zu ces cze dan deu dut eng est fin fra fre ger hrv "
    "hun isl ita lav lit nld nor pol por ron slk slv spa sqi swe tur vie",
    "Cyrl": "ab av ba be bg ce cv kbd kk kv ky mhr mk mn os ru sah tg tt tyv udm uk "
    "bel bul kaz mkd rus ukr",
    "Grek": "el ell gre grc",
    "Arab": "ar ara arz azb ckb fa fas ps sd ug ur urd",
    "Hebr": "he heb iw yi",
    "Deva": "awa bho brx doi hi hin hne kok mag mai mar mr ne nep new sa",
    "Beng": "as ben bn bpy mni",
    "Guru": "pa pan",
    "Gujr": "gu guj",
    "Orya": "or ory",
    "Taml": "ta tam",
    "Telu": "te tel",
    "Knda": "kan kn",
    "Mlym": "mal ml",
    "Sinh": "si sin",
    "Thai": "th tha",
    "Laoo": "lao lo",
    "Mymr": "my mya shn",
    "Khmr": "khm km",
    "Tibt": "bo bod dz",
    "Geor": "ka kat xmf",
    "Armn": "hy hye hyw",
    "Ethi": "am amh ti tir",
    "Hani": "cmn lzh wuu yue zh zho",
    "Jpan": "ja jpn",
    "Kore": "ko kor",
    "Latn Cyrl": "sr srp sh",
    "Latn Arab": "ku",
}
_SCRIPTS = {code: names for names, codes in _LANGUAGES.items() for code in codes.split()}

# Characters that all scripts share: no letters.
_SHARED = (
    "\\x00-@\\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7"
    "\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff\u3000-\u3003"
)


class ScriptFilter:
    """Find lines with more than half of their letters outside the scripts of a language."""

    def __init__(self, language: str) -> None:
        letters = "".join(_LETTERS[name] for name in _scripts_of(language))
        self._own = re.compile(f"[{letters}]") if letters else None
        self._others = re.compile(f"[^{_SHARED}{letters}]")
        self._ascii = _LATIN in letters

    def wrong(self, lines: Sequence[str]) -> Iterator[int]:
        """Yield the indices of the lines in another script."""
        if self._own is None:
            return
        for index, line in enumerate(lines):
            if self._ascii and line.isascii():
                continue
            if self._others.search(line) and self._is_wrong(self._own, line):
                yield index

    def _is_wrong(self, own: re.Pattern[str], line: str) -> bool:
        letters = "".join(filter(str.isalpha, line))
        return 2 * len(own.findall(letters)) < len(letters)


def _scripts_of(language: str) -> list[str]:
    code, *parts = language.replace("_", "-").split("-")
    named = [part.title() for part in parts if part.title() in _LETTERS]
    return named[:1] or _SCRIPTS.get(code.lower(), "").split()


PACKAGE = "py3langid"

_FEWEST_LETTERS = 40
_CERTAIN = 0.9
_UNLIKELY = 0.05
_SIMILAR_LANGUAGES = (
    "bs hr sh sr",
    "da nb nn no",
    "id ms",
    "cs sk",
    "af nl",
    "es gl",
    "be ru uk",
    "bg mk",
)


class LanguageFilter:
    """Find lines in another language than `language`; "" finds none."""

    def __init__(self, language: str) -> None:
        code = language.replace("_", "-").split("-")[0].lower()
        groups = [group.split() for group in _SIMILAR_LANGUAGES]
        self._similar = {code, *chain(*(group for group in groups if code in group))}
        self._language = code
        self._identifier: Any = None

    def wrong(self, lines: Sequence[str], indices: Iterable[int]) -> Iterator[int]:
        """Yield those of `indices` whose lines are in another language."""
        if not self._language:
            return
        if self._identifier is None:
            self._identifier = _identifier()
        if self._language not in self._identifier.labels:
            return
        for index in indices:
            if self._is_wrong(lines[index]):
                yield index

    def _is_wrong(self, line: str) -> bool:
        if len(line) < _FEWEST_LETTERS or sum(map(str.isalpha, line)) < _FEWEST_LETTERS:
            return False
        likeliest, probability = self._identifier.classify(line)
        if likeliest in self._similar or probability < _CERTAIN:
            return False
        own = float(dict(self._identifier.rank(line))[self._language])
        return own < _UNLIKELY


def check_installed(settings: CorpusSettings) -> None:
    """Raise an error if the language filter is on and its package is not installed."""
    if settings.drop_wrong_language and importlib.util.find_spec(PACKAGE) is None:
        raise ConfigError(
            f"the package {PACKAGE}, which identifies languages, is not installed",
            where="corpus.drop_wrong_language",
            fix="pip install 'unisono[languages]', or set it to false",
        )


def _identifier() -> Any:
    langid = importlib.import_module(f"{PACKAGE}.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
