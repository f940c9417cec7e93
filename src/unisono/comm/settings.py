"""How replicas come to agree, as a user writes it. No torch here."""

from typing import Annotated, Literal

import msgspec


class Sync(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exchange of gradients between processes."""

    strategy: Literal["ddp", "all_reduce"] = "ddp"
    bucket_mb: Annotated[float, msgspec.Meta(gt=0)] = 25.0
    timeout: str = "5 min"
    start_timeout: str = "5 min"
    interface: str = ""
