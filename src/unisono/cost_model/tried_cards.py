"""The cards on which Unisono has run: the rows of the table in docs/how-to/gpus.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TriedCard:
    """A card by a part of its full name, such as "A100", what ran on it, and when."""

    card: str
    what: str
    date: str


TRIED_CARDS: tuple[TriedCard, ...] = ()


def untried_card(full_name: str, tried: tuple[TriedCard, ...] = TRIED_CARDS) -> str:
    """Return a word about a card on which nothing of ours has run yet, or ""."""
    if any(one.card in full_name for one in tried):
        return ""
    return (
        f"we have not run Unisono on a {full_name} yet; `unisono selftest` proves it in two "
        "minutes"
    )
