"""What has changed between two texts, small enough to send every few seconds.

A text is lines. Where only some lines changed, a patch says what is new in the middle of each;
where lines came or went, it replaces them. Charts keep their numbers in paths, to whose ends
the new ones are added, so a patch of a chart holds little more than these.
"""

from collections.abc import Sequence
from typing import Any

BEYOND_UTF16 = "\uffff"  # the last character that JavaScript counts as one, as Python does


def patch_of(before: str, after: str) -> dict[str, Any]:
    """Return how to make `after` from `before`.

    `{"set": [[line, kept at its begin, kept at its end, new middle], …]}`, or
    `{"at": line, "cut": lines, "put": [new lines]}`.
    """
    old, new = before.split("\n"), after.split("\n")
    if len(old) == len(new):
        changed = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        return {"set": [[n, *_splice(old[n], new[n])] for n in changed]}
    same = _common(old, new)
    rest = _common(old[same:][::-1], new[same:][::-1])
    return {"at": same, "cut": len(old) - same - rest, "put": new[same : len(new) - rest]}


def patched(before: str, patch: dict[str, Any]) -> str:
    """Return what `patch` makes of `before`, as the script of the page does."""
    lines = before.split("\n")
    if "put" in patch:
        at = patch["at"]
        lines[at : at + patch["cut"]] = patch["put"]
    for number, begin, end, middle in patch.get("set", ()):
        line = lines[number]
        lines[number] = line[:begin] + middle + line[len(line) - end :]
    return "\n".join(lines)


def _splice(old: str, new: str) -> tuple[int, int, str]:
    if max(old, default="") > BEYOND_UTF16 or max(new, default="") > BEYOND_UTF16:
        return 0, 0, new
    begin = _common(old, new)
    end = _common(old[begin:][::-1], new[begin:][::-1])
    return begin, end, new[begin : len(new) - end]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many items both begin with, by halving: comparing slices is quick."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
