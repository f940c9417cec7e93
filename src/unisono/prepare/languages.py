"""Lines in another language than their file should hold; needs the package py3langid.

Its guess is a guess: it is asked about long sentences only, and believed only if it is
nearly sure. Languages that are written nearly alike are not held against each other.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from unisono.config.settings import CorpusSettings
from unisono.errors import ConfigError

PACKAGE = "py3langid"

_FEWEST_LETTERS = 40
_SURE = 0.9
_UNLIKELY = 0.05
_ALIKE = ("bs hr sh sr", "da nb nn no", "id ms", "cs sk", "af nl", "es gl", "be ru uk", "bg mk")


class LanguageFilter:
    """Find lines that are in another language than `language`; "" judges nothing."""

    def __init__(self, language: str) -> None:
        code = language.replace("_", "-").split("-")[0].lower()
        groups = [group.split() for group in _ALIKE]
        self._alike = {code, *chain(*(group for group in groups if code in group))}
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
        if likeliest in self._alike or probability < _SURE:
            return False
        own = float(dict(self._identifier.rank(line))[self._language])
        return own < _UNLIKELY


def check_installed(settings: CorpusSettings) -> None:
    """Raise an error if languages are to be told and the package for it is not there."""
    if settings.drop_wrong_language and importlib.util.find_spec(PACKAGE) is None:
        raise ConfigError(
            f"the package {PACKAGE}, which tells languages, is not installed",
            where="corpus.drop_wrong_language",
            fix="pip install 'unisono[languages]', or set it to false",
        )


def _identifier() -> Any:
    langid = importlib.import_module(f"{PACKAGE}.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
