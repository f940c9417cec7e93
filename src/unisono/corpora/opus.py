"""Corpora of OPUS, named by pattern: `opus:CORPUS/VERSION/l1-l2`."""

import re

from unisono.corpora.entry import Entry, File, Set, Side
from unisono.errors import ConfigError

PREFIX = "opus:"
EXAMPLE = "opus:Books/v1/de-en"

_LANGUAGE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4})?"
_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}"
_PATTERN = re.compile(
    rf"opus:(?P<corpus>{_WORD})/(?P<version>{_WORD})/(?P<l1>{_LANGUAGE})-(?P<l2>{_LANGUAGE})"
)


def opus_entry(name: str) -> Entry:
    """Return the entry for `opus:CORPUS/VERSION/l1-l2`; l1 is the source language.

    OPUS keeps one archive for both directions, with its languages in alphabetical order, and
    publishes no checksums.
    """
    match = _PATTERN.fullmatch(name)
    if match is None or match["l1"] == match["l2"]:
        raise ConfigError(
            f'"{name}" does not name a corpus of OPUS',
            where="corpora get",
            fix=f"write opus:CORPUS/VERSION/SOURCE-TARGET, for example {EXAMPLE}",
        )
    corpus, version, source, target = match.group("corpus", "version", "l1", "l2")
    first, second = sorted((source, target))
    file = f"{corpus}-{version}-{first}-{second}.txt.zip"
    url = f"https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{first}-{second}.txt.zip"
    sides = {language: Side(file, (f"*.{language}",)) for language in (source, target)}
    return Entry(
        name=f"opus-{corpus}-{version}-{source}-{target}",
        description=f"{corpus} {version} from OPUS",
        languages=(source, target),
        file=(File(file, (url,)),),
        set=(Set(f"{corpus}-{version}", "train", sides),),
        licence="differs from corpus to corpus: see https://opus.nlpl.eu",
        notes=("OPUS publishes no checksums: the first download is trusted and recorded.",),
    )
