"""When to try again at an address that did not take something."""

import time

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0


class NotTakenError(Exception):
    """An address did not take what was sent; the message says why, without any secret.

    `code` is the status of its answer, 0 without one.
    """

    def __init__(self, why: str, *, code: int = 0) -> None:
        self.code = code
        super().__init__(why)


class Retry:
    """Pauses that double after each refusal; `refused` says why, "" after a success."""

    def __init__(self) -> None:
        self.refused = ""
        self._pause, self._not_before = FIRST_PAUSE_SECONDS, 0.0

    @property
    def is_due(self) -> bool:
        """Return whether the pause is over."""
        return time.monotonic() >= self._not_before

    def failed(self, why: str) -> None:
        """Note a refusal: the next pause begins now."""
        self.refused = why
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def worked(self) -> None:
        """Note a success."""
        self.refused, self._pause = "", FIRST_PAUSE_SECONDS
