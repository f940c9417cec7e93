"""Which way is quicker for a machine: from here, or from another machine that has it already.

The first machine gets everything from here. Another one begins so, too; after some seconds it
fetches a content from the first for a moment, compares the two rates, and stays with the better
way. What was fetched to compare counts.
"""

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from unisono.secure.secret import new_secret

MEASURE_SECONDS = TRIAL_SECONDS = 3.0
# So much quicker must the other way be: the first machine needs a content before others can.
WORTH = 1.5
MOST_FAILURES = 3
MOST_WAIT_SECONDS = 900.0


@dataclass
class RouteState:
    """The way of one machine: measured from when to when, what came from here, the choice."""

    began: float = 0.0
    last: float = 0.0
    from_here: int = 0
    failures: int = 0
    is_relayed: bool = False
    is_decided: bool = False


@dataclass
class PeerRoutes:
    """The ways of all machines; the one called `first` serves the others once it `serves`."""

    first: str
    hosts: Collection[str]
    secret: str = field(default_factory=new_secret)
    addresses: tuple[str, ...] = ()
    port: int = 0

    def __post_init__(self) -> None:
        self._states = {host: RouteState() for host in self.hosts if host != self.first}
        self._first_has: dict[str, int] = {}
        self._has_ended = False
        self._changed = threading.Condition()

    def serve(self, addresses: Iterable[str], port: int, has: Mapping[str, int]) -> None:
        """The first machine serves there, and has so many bytes of these contents."""
        self.addresses, self.port = tuple(dict.fromkeys(filter(None, addresses))), port
        self._first_has.update(has)

    def begin(self, host: str) -> None:
        """Note that something is sent to a machine from here."""
        if state := self._states.get(host):
            state.began = state.began or time.monotonic()

    def came(self, host: str, count: int) -> None:
        """Note that bytes came to a machine from here."""
        if state := self._states.get(host):
            state.from_here += count
            state.last = time.monotonic()

    def has(self, host: str, digest: str, count: int) -> None:
        """Note how many bytes of a content a machine has."""
        if host == self.first:
            with self._changed:
                self._first_has[digest] = count
                self._changed.notify_all()

    def largest_first(self, host: str) -> bool:
        """Return the order of contents: the first machine begins with what others get last."""
        return host == self.first or self._states[host].is_relayed

    def end(self, host: str) -> None:
        """Note that a machine gets no more."""
        if host == self.first:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def is_relayed(self, host: str) -> bool:
        """Return whether a machine fetches from the first one."""
        return host in self._states and self._states[host].is_relayed

    def is_time(self, host: str) -> bool:
        """Return whether a machine should compare its two ways now."""
        state = self._states.get(host)
        if not self.port or state is None or state.is_decided or not state.began:
            return False
        return time.monotonic() - state.began > MEASURE_SECONDS

    def trial(self, have: Mapping[str, int]) -> str:
        """Return a content of which the first machine has most that another one lacks.

        `have` is what that one has of the contents it lacks. If the first is not ahead, both
        pause but for that content, and the trial shows how fast the first gets it alone.
        """
        with self._changed:
            ahead = {
                one: self._first_has[one] - count
                for one, count in have.items()
                if one in self._first_has
            }
        return max(ahead, key=lambda one: ahead[one], default="")

    def decide(self, host: str, from_there: float) -> tuple[float, bool]:
        """Choose by the rate from the first machine; return that from here, and the choice."""
        state = self._states[host]
        from_here = state.from_here / max(0.001, state.last - state.began)
        state.is_decided, state.is_relayed = True, from_there > WORTH * from_here
        return from_here, state.is_relayed

    def measure_again(self, host: str) -> None:
        """Compare later: the first machine has nothing yet that this one lacks."""
        self._states[host].began, self._states[host].from_here = time.monotonic(), 0

    def failed(self, host: str) -> None:
        """Note that a fetch failed; after some, everything comes from here."""
        state = self._states[host]
        state.failures += 1
        state.is_relayed = state.failures < MOST_FAILURES

    def wait_for(self, digest: str) -> bool:
        """Wait until the first machine begins to get a content; return whether it has."""
        with self._changed:
            self._changed.wait_for(
                lambda: digest in self._first_has or self._has_ended, MOST_WAIT_SECONDS
            )
            return digest in self._first_has
