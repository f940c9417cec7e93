"""How far the preparation is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units of a stage, from 0 to all of them; a `total` of 0 is not known.

    Stages in order: "reading" (bytes of the input files), "reading a sample" (pairs),
    "learning pieces", "encoding" (pairs). If a corpus is there already, "comparing" and
    "verifying" (bytes) come first; then either "up to date" or "weights changed" is all, or
    only what is new is read and encoded, and "added" (sources) comes last.
    """

    stage: str
    done: int
    total: int
    unit: str = "pairs"
