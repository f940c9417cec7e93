"""Small models of merges, and what the paper on BPE-dropout says about them."""

from collections import Counter

from unisono.text.sentence_pieces import Kind, Piece


def ladder(*texts):
    """Return the pieces of a model that merges `texts` in this order."""
    letters = dict.fromkeys("".join(texts))
    return [Piece("", 0.0, Kind.CONTROL)] * 4 + [
        Piece(text, -float(rank), Kind.NORMAL) for rank, text in enumerate([*texts, *letters])
    ]


def probabilities(pieces, symbols, dropout):
    """Enumerate algorithm 1 of the paper: every outcome of every round, and how likely."""
    ranks = {piece.text: -piece.score for piece in pieces if piece.kind == Kind.NORMAL}
    candidates = [
        (ranks[a + b], at)
        for at, (a, b) in enumerate(zip(symbols, symbols[1:], strict=False))
        if a + b in ranks
    ]
    found = Counter({symbols: dropout ** len(candidates)})
    for number, (_, at) in enumerate(sorted(candidates)):
        chosen = dropout**number * (1 - dropout)
        merged = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
        for outcome, probability in probabilities(pieces, merged, dropout).items():
            found[outcome] += chosen * probability
    return found
