"""Who speaks with whom when everybody has to speak with everybody, one at a time."""

Pairs = tuple[tuple[int, int], ...]


def rounds(players: int) -> list[Pairs]:
    """Return rounds of pairs: each meets each once, and nobody is in two pairs of a round."""
    seats: list[int | None] = list(range(players))
    if players % 2:
        seats.append(None)  # whoever meets it has a rest
    found = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        pairs = ((a, b) for a, b in facing if a is not None and b is not None)
        found.append(tuple(sorted((min(a, b), max(a, b)) for a, b in pairs)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found
