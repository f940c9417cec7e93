"""How far the preparation is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units of a stage, from 0 to all of them.

    Stages in order: "reading" (bytes of the input files), "learning pieces" and "encoding"
    (pairs); or only "comparing" (bytes) and "up to date".
    """

    stage: str
    done: int
    total: int
    unit: str = "pairs"
