"""Send the alerts of a run to a web address, each once, even after hours without contact.

The run directory records what was sent, so that a sender that was stopped goes on where it
was. The address may hold a token: it is never shown, and the file has only its hash.
"""

import hashlib
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unisono.atomic import write_bytes
from unisono.diagnose.case import open_case
from unisono.errors import ConfigError
from unisono.publish.alerts import Alert, alerts_of
from unisono.records.follow import Follower
from unisono.small_files import PARSER_ERRORS, read_bytes

SENT_FILE = "published.json"
TIMEOUT_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0


def _is_address(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        name, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        return False
    is_plain = not any(letter.isspace() or not letter.isprintable() for letter in text)
    return is_plain and parts.scheme in ("http", "https") and bool(name) and port != 0


class _Accepted(msgspec.Struct, frozen=True):
    """The alerts that each address has taken, by the hash of the address."""

    addresses: dict[str, list[str]] = {}
    format: int = 1


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none: the token of the address is for this address alone."""


@dataclass
class Webhook:
    """Sends the alerts of one run to one address."""

    run: Path
    address: str
    refused: str = ""
    _pause: float = FIRST_PAUSE_SECONDS
    _not_before: float = 0.0

    def __post_init__(self) -> None:
        if not _is_address(self.address):
            raise ConfigError(
                "the address of the webhook is not an http or https address",
                where="--address-file",
                fix="the file holds one line such as https://hooks.example.org/…",
            )
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._follower = Follower(self.run)
        self._known = hashlib.sha256(self.address.encode()).hexdigest()
        self._taken = set(self._read().addresses.get(self._known, []))

    def look(self, now: float) -> tuple[str, list[Alert]]:
        """Read what is new and send what can be; return the run's state and what remains."""
        case = open_case(self._follower.look(), now)
        waiting = [alert for alert in alerts_of(case) if alert.key not in self._taken]
        if waiting and time.monotonic() >= self._not_before:
            waiting = waiting[self._send_all(waiting) :]
        return case.state, waiting

    def _send_all(self, alerts: Iterable[Alert]) -> int:
        """Send alerts in their order until one is refused; return how many were accepted."""
        taken = 0
        for alert in alerts:
            self.refused = self._send(alert)
            if self.refused:
                self._not_before = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
                break
            self._pause = FIRST_PAUSE_SECONDS
            self._taken.add(alert.key)
            self._write()
            taken += 1
        return taken

    def _send(self, alert: Alert) -> str:
        """Send one alert; return why it was not accepted, or ""."""
        words = f"{self.run}: {alert.summary}" + f" {alert.advice}" * bool(alert.advice)
        table = {"text": words, "run": str(self.run), **msgspec.to_builtins(alert)}
        request = urllib.request.Request(
            self.address,
            data=msgspec.json.encode(table),
            headers={"Content-Type": "application/json", "User-Agent": "unisono"},
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            return f"it answered with {error.code}"
        except OSError as error:
            return f"{getattr(error, 'reason', None) or error}"
        except (http.client.HTTPException, ValueError):  # its words could repeat the address
            return "what it answers is not HTTP"
        return ""

    def _read(self) -> _Accepted:
        try:
            return msgspec.json.decode(read_bytes(self.run / SENT_FILE), type=_Accepted)
        except (OSError, *PARSER_ERRORS):
            return _Accepted()

    def _write(self) -> None:
        addresses = {**self._read().addresses, self._known: sorted(self._taken)}
        write_bytes(self.run / SENT_FILE, msgspec.json.encode(_Accepted(addresses)), mode=0o600)
