"""Languages: their English names, which one a client means, and which one a text is in."""

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from unisono.serve.requests import RequestError

PACKAGE = "py3langid"
LONGEST_DETECTED = 20_000  # a part of a text is enough to detect its language

_NAMES = """
af Afrikaans, am Amharic, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali,
bs Bosnian, ca Catalan, cs Czech, cy Welsh, da Danish, de German, el Greek, en English,
eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fo Faroese,
fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gu Gujarati,
ha Hausa, he Hebrew, hi Hindi, hr Croatian, hsb Upper Sorbian, ht Haitian Creole,
hu Hungarian, hy Armenian, id Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese,
jv Javanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean, ku Kurdish, ky Kyrgyz,
la Latin, lb Luxembourgish, lo Lao, lt Lithuanian, lv Latvian, mg Malagasy, mi Maori,
mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese,
nb Norwegian Bokmål, ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, oc Occitan,
pa Punjabi, pl Polish, ps Pashto, pt Portuguese, ro Romanian, ru Russian, rw Kinyarwanda,
sa Sanskrit, sd Sindhi, se Northern Sami, si Sinhala, sk Slovak, sl Slovenian, so Somali,
sq Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai,
ti Tigrinya, tk Turkmen, tl Tagalog, tr Turkish, tt Tatar, ug Uyghur, uk Ukrainian, ur Urdu,
uz Uzbek, vi Vietnamese, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, zh Chinese, zu Zulu
"""
LANGUAGE_NAMES = dict(
    entry.strip().split(" ", 1) for entry in _NAMES.split(",") if entry.strip()
)


@dataclass(frozen=True)
class Detection:
    """A language and how sure we are that a text is in it, from 0 to 100."""

    language: str
    confidence: float


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if we know none."""
    return LANGUAGE_NAMES.get(code, LANGUAGE_NAMES.get(_base(code), code))


def meant(code: str, known: Iterable[str]) -> str:
    """Return which of the known languages a client means: `de-AT` may be `de`; "" if none."""
    names = {name.lower().replace("_", "-"): name for name in known}
    asked = code.lower().replace("_", "-")
    return names.get(asked) or names.get(_base(asked)) or ""


def is_detector_installed() -> bool:
    """Return whether the package that identifies languages is there."""
    return importlib.util.find_spec(PACKAGE) is not None


def detect(text: str, among: Sequence[str]) -> list[Detection]:
    """Return the languages that a text may be in, the likeliest first.

    Where a single language is possible, that is the answer, and its confidence 0 without the
    package that identifies languages: nothing was measured.
    """
    if not is_detector_installed():
        if len(among) == 1:
            return [Detection(among[0], 0.0)]
        raise RequestError(
            501, f"the language cannot be detected here: name it, or install {PACKAGE}"
        )
    shares = {code: float(share) for code, share in _identifier().rank(text[:LONGEST_DETECTED])}
    found = [Detection(code, round(100 * shares.get(_base(code), 0.0), 1)) for code in among]
    return sorted(found, key=lambda one: -one.confidence)


def _base(code: str) -> str:
    return code.replace("_", "-").split("-")[0].lower()


@cache
def _identifier() -> Any:
    langid = importlib.import_module(f"{PACKAGE}.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
