"""Tags: symbols in front of a source line that tell the model what kind of line it is.

`<BT>` may mark a line that a machine translated back, `<2de>` one to be put into German. A
tag is one piece. It stands in front of the text, more than one if need be; anywhere else what
looks like a tag is text like any other, and so it is in the target language.
"""

import re
from collections.abc import Mapping, Sequence

from unisono.text.tokenizer import Tokenizer

LONGEST_TAG = 64
_SPECIAL = re.compile(r"</?s>|<unk>|<pad>|<0x[0-9A-Fa-f]{2}>")


def what_is_wrong_with(tag: str) -> str:
    """Say why `tag` cannot be one, or "" if it can."""
    if not tag or len(tag) > LONGEST_TAG:
        return f"it has {len(tag)} characters; 1 to {LONGEST_TAG} are possible"
    if any(character.isspace() or character in ",\u2581" for character in tag):
        return "it has a space, a comma or U+2581 in it"
    if tag[0].isalnum() or tag[-1].isalnum():
        return "it begins or ends like a word, and could be taken for one"
    return "SentencePiece uses it itself" if _SPECIAL.fullmatch(tag) else ""


def cut_tags(line: str, tags: Mapping[str, int]) -> tuple[list[int], str]:
    """Return the ids of the tags that a normalised line begins with, and the text behind."""
    ids: list[int] = []
    while tag := max((tag for tag in tags if line.startswith(tag)), key=len, default=""):
        ids.append(tags[tag])
        line = line[len(tag) :].removeprefix(" ")
    return ids, line


def cut_all(lines: Sequence[str], tags: Mapping[str, int]) -> tuple[list[list[int]], list[str]]:
    """Return for each line the ids of the tags that it begins with, and the text behind."""
    starts = tuple(tags)
    cut = [cut_tags(s, tags) if starts and s.startswith(starts) else ([], s) for s in lines]
    return [ids for ids, _ in cut], [text for _, text in cut]


def encode_source(tokenizer: Tokenizer, lines: Sequence[str], tag: str = "") -> list[list[int]]:
    """Return the ids of source lines, the tags they begin with as one piece each.

    With a `tag` it comes before them.
    """
    ids, texts = cut_all(lines, tokenizer.tags)
    first = [tokenizer.tags[tag]] if tag else []
    encoded = tokenizer.encode(texts)
    return [[*first, *tags, *text] for tags, text in zip(ids, encoded, strict=True)]
