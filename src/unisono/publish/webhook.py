"""Send the alerts of a run to a web address, each once, even after hours without contact.

The run directory records what was sent, so that a sender that was stopped goes on where it
was. The address may hold a token: it is never shown, and the file has only its hash.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from unisono.diagnose.case import open_case
from unisono.publish.alerts import Alert, alerts_of
from unisono.publish.http_client import ask, check_address
from unisono.publish.retry import NotTakenError, Retry
from unisono.publish.sent import SentStore
from unisono.records.follow import Follower


class TakenAlerts(msgspec.Struct, frozen=True):
    """The alerts that an address has taken, by their keys."""

    alerts: list[str] = []
    format: int = 1


@dataclass
class Webhook:
    """Sends the alerts of one run to one address."""

    run: Path
    address: str
    retry: Retry = field(default_factory=Retry)

    def __post_init__(self) -> None:
        check_address(
            self.address,
            where="--address-file",
            what="the webhook",
            fix="the file holds one line such as https://hooks.example.org/…",
        )
        self._follower = Follower(self.run)
        known = hashlib.sha256(self.address.encode()).hexdigest()
        self._sent = SentStore(self.run, "webhook", known, TakenAlerts)
        self._taken = set(self._sent.read().alerts)

    def look(self, now: float) -> tuple[str, list[Alert]]:
        """Read what is new and send what can be; return the run's state and what remains."""
        case = open_case(self._follower.look(), now)
        waiting = [alert for alert in alerts_of(case) if alert.key not in self._taken]
        if waiting and self.retry.is_due:
            waiting = waiting[self._send_all(waiting) :]
        return case.state, waiting

    def close(self, state: str) -> None:
        """Let others send to this address; each alert was sent by itself."""
        self._sent.close()

    def _send_all(self, alerts: Sequence[Alert]) -> int:
        """Send alerts in their order until one is refused; return how many were accepted."""
        for taken, alert in enumerate(alerts):
            try:
                ask(self.address, self._message(alert), most=1)  # its words do not matter
            except NotTakenError as error:
                self.retry.failed(str(error))
                return taken
            self.retry.worked()
            self._taken.add(alert.key)
            self._sent.write(TakenAlerts(sorted(self._taken)))
        return len(alerts)

    def _message(self, alert: Alert) -> dict[str, object]:
        words = f"{self.run}: {alert.summary}" + f" {alert.advice}" * bool(alert.advice)
        return {"text": words, "run": str(self.run), **msgspec.to_builtins(alert)}
