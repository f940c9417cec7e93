"""Trackio's server (`trackio show`), by its HTTP API: no package of Trackio is needed here."""

import urllib.parse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from unisono.publish.alerts import Alert
from unisono.publish.http_client import ask, check_server_address
from unisono.publish.points import Point
from unisono.publish.retry import NotTakenError
from unisono.publish.tracker import RunFacts, flat

TOKEN_HEADER = "X-Trackio-Write-Token"
TOKEN_VARIABLE, ADDRESS_VARIABLE = "TRACKIO_WRITE_TOKEN", "TRACKIO_SERVER_URL"
BAD_REQUEST = 400
TRACKIO_LEVELS = {"info": "info", "warning": "warn", "error": "error"}


class TrackioServer:
    """The server at `address`; TRACKIO_WRITE_TOKEN of `variables` lets us write there.

    Every entry has an id, and the server ignores one that it knows: nothing comes twice.
    """

    def __init__(self, address: str, project: str, variables: Mapping[str, str]) -> None:
        token = variables.get(TOKEN_VARIABLE, "")
        if address == variables.get(
            ADDRESS_VARIABLE
        ):  # Trackio itself prints it with the token
            address, _, query = address.partition("?")
            token = token or dict(urllib.parse.parse_qsl(query)).get("write_token", "")
        check_server_address(address, "Trackio", TOKEN_VARIABLE)
        self._base, self._project = address.rstrip("/") + "/api/", project
        self._headers = {TOKEN_HEADER: token} if token else {}
        self._run: dict[str, Any] = {}
        self._config: dict[str, str] = {}

    @property
    def place(self) -> str:
        return f"{self._base} {self._project}"

    def open(self, facts: RunFacts, known: str) -> str:
        self._run = {"project": self._project, "run": facts.name, "run_id": facts.identity}
        self._config = {"_Created": _clock(facts.began), **facts.tags, **flat(facts.settings)}
        return facts.identity

    def log(self, points: Sequence[Point]) -> None:
        updates = [
            {**self._entry(point), "step": point.at, "config": self._config}
            for point in points
            if not point.of_machine
        ]
        machines = [
            {**self._entry(point), "timestamp": _clock(point.time)}
            for point in points
            if point.of_machine
        ]
        for name, logs in (("bulk_log", updates), ("bulk_log_system", machines)):
            if logs:
                self._ask(name, logs=logs)

    def alert(self, fresh: Sequence[Alert], everything: Sequence[Alert]) -> None:
        alerts = [
            {
                **self._run,
                "title": alert.kind,
                "text": f"{alert.summary} {alert.advice}".strip(),
                "level": TRACKIO_LEVELS.get(alert.severity, "info"),
                "step": alert.step,
                "timestamp": _clock(alert.time),
                "alert_id": f"{self._run['run_id']}:{alert.key}",
            }
            for alert in fresh
        ]
        self._ask("bulk_alert", alerts=alerts)

    def close(self, state: str) -> None:
        """Do nothing: Trackio knows no end of a run."""

    def _entry(self, point: Point) -> dict[str, Any]:
        log_id = f"{self._run['run_id']}:{point.id}"
        return {**self._run, "metrics": point.values, "log_id": log_id}

    def _ask(self, name: str, **arguments: list[dict[str, Any]]) -> None:
        body = {"args": [], "kwargs": {**arguments, "hf_token": None}}
        try:
            ask(urllib.parse.urljoin(self._base, name), body, self._headers)
        except NotTakenError as error:
            if error.code != BAD_REQUEST:
                raise
            why = f"{error}; is {TOKEN_VARIABLE} its write token?"
            raise NotTakenError(why, code=error.code) from error


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
