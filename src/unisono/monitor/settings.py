"""How machines are sampled, as a user writes it."""

import msgspec


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Look at the machines `every` so often; a fifth as often after an hour."""

    on: bool = True
    every: str = "1 s"
