"""The time that a rehearsal may take."""

import time
from dataclasses import dataclass

from unisono.comm.protocol import Comm

# After the measuring, for an evaluation, a checkpoint and the data: with 35 s, a minute.
SPARE_SECONDS = 25.0


@dataclass(frozen=True, eq=False)
class Deadline:
    """When the measuring is to be over (`until`), by this process's clock, and when all is."""

    comm: Comm
    until: float

    @property
    def end(self) -> float:
        """Return when everything has to be over."""
        return self.until + SPARE_SECONDS

    def allows(self, seconds: float = 0.0) -> bool:
        """Return whether so much more fits in, on every process. All have to ask together."""
        return not self.comm.any(time.perf_counter() + seconds > self.end)
