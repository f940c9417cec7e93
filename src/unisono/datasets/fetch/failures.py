"""Why an attempt to download did not succeed, and what may be done about it.

None of these leaves the package: they are collected, address by address, into one error.
"""


class AttemptError(Exception):
    """An attempt at one address did not bring the file; `reason` is for a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BrokenError(AttemptError):
    """It may work in a moment: the connection broke or the server was busy.

    `wait` is the number of seconds the server asked for.
    """

    def __init__(self, reason: str, *, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class AbsentError(AttemptError):
    """Nobody there, or no such file: worth a second try only where there was one before."""


class RefusedError(AttemptError):
    """What is offered there is not the file, or must not be taken: asking again is no use."""


class MisfitError(AttemptError):
    """What came so far does not fit what the server has: to be started over."""
