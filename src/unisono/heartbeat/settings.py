"""How long each section of a run may take, as a user writes it."""

import msgspec

SUPERVISED = "UNISONO_SUPERVISED"  # set for workers whose agent is started again if it fails


class SectionLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that is longer in one section ends, and says where it stood; "" is no limit.

    `start` counts until the first updates are made, and for those. `data` should be less than
    `step`: while one process waits for its data, the others wait for it in their step.
    """

    start: str = "30 min"
    data: str = "90 s"
    step: str = "2 min"
    evaluation: str = "2 h"
    save: str = "30 min"
