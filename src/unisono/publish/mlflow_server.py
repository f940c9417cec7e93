"""MLflow's tracking server, by its REST API: no package of MLflow is needed on this side."""

import base64
import re
import time
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unisono.publish.alerts import Alert
from unisono.publish.http_client import ask, check_server_address
from unisono.publish.points import Point
from unisono.publish.retry import NotTakenError
from unisono.publish.tracker import RunFacts, flat

API = "api/2.0/mlflow/"
# Limits of the server: of a request, of a value, of the description of a run.
MOST_METRICS, MOST_PARAMETERS, LONGEST_VALUE, LONGEST_NOTE = 1000, 100, 500, 5000
NOTE = "mlflow.note.content"
MOST_ALERTS_SHOWN = 40
NOT_FOUND = 404
MLFLOW_STATES = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
_FOREIGN = re.compile(r"[^A-Za-z0-9_./ :-]")


class MlflowServer:
    """The server at `address`; the experiment `project` holds the runs.

    MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD, of `variables` say who we are.
    """

    def __init__(self, address: str, project: str, variables: Mapping[str, str]) -> None:
        check_server_address(address, "MLflow", "MLFLOW_TRACKING_TOKEN")
        self._base, self._project = address.rstrip("/") + "/" + API, project
        self._headers = _authorization(variables)
        self._run = ""

    @property
    def place(self) -> str:
        return f"{self._base} {self._project}"

    def open(self, facts: RunFacts, known: str) -> str:
        self._run = known or self._found(facts) or self._created(facts)
        if known:
            self._ask("runs/update", {"run_id": known, "status": "RUNNING"})
        else:
            settings = list(flat(facts.settings).items())
            for start in range(0, len(settings), MOST_PARAMETERS):
                part = settings[start : start + MOST_PARAMETERS]
                self._log_batch(params=_pairs(part))
        return self._run

    def log(self, points: Sequence[Point]) -> None:
        metrics = [metric for point in points for metric in _metrics(point)]
        for start in range(0, len(metrics), MOST_METRICS):
            self._log_batch(metrics=metrics[start : start + MOST_METRICS])

    def alert(self, fresh: Sequence[Alert], everything: Sequence[Alert]) -> None:
        """Show the latest alerts in the description of the run."""
        lines = [f"* **{a.kind}** at step {a.step:,}: {_words(a)}" for a in everything]
        shown = "\n".join(lines[-MOST_ALERTS_SHOWN:])
        self._log_batch(tags=[{"key": NOTE, "value": shown[-LONGEST_NOTE:]}])

    def close(self, state: str) -> None:
        status = MLFLOW_STATES.get(state, "KILLED")
        ended = {"run_id": self._run, "status": status, "end_time": round(1000 * time.time())}
        self._ask("runs/update", ended)

    def _log_batch(self, **parts: list[dict[str, Any]]) -> None:
        self._ask("runs/log-batch", {"run_id": self._run, **parts})

    def _found(self, facts: RunFacts) -> str:
        """Return the id of a run that was begun there, but not remembered here."""
        wanted = {
            "experiment_ids": [self._experiment()],
            "filter": f"tags.`unisono.run` = '{facts.identity}'",
            "max_results": 1,
        }
        runs = self._ask("runs/search", wanted).get("runs") or []
        return str(runs[0]["info"]["run_id"]) if runs else ""

    def _created(self, facts: RunFacts) -> str:
        tags = _pairs((facts.tags | {"mlflow.source.name": "unisono"}).items())
        began = {
            "experiment_id": self._experiment(),
            "run_name": facts.name,
            "start_time": round(1000 * facts.began),
            "tags": tags,
        }
        return str(self._ask("runs/create", began)["run"]["info"]["run_id"])

    def _experiment(self) -> str:
        name = urllib.parse.urlencode({"experiment_name": self._project})
        try:
            found = self._ask(f"experiments/get-by-name?{name}")
        except NotTakenError as error:
            if error.code != NOT_FOUND:
                raise
            found = {"experiment": self._ask("experiments/create", {"name": self._project})}
        return str(found["experiment"]["experiment_id"])

    def _ask(self, what: str, body: object = None) -> dict[str, Any]:
        return ask(self._base + what, body, self._headers)


def _authorization(variables: Mapping[str, str]) -> dict[str, str]:
    if token := variables.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user, password = (variables.get(f"MLFLOW_TRACKING_{n}") for n in ("USERNAME", "PASSWORD"))
    if user and password:
        return {
            "Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        }
    return {}


def _metrics(point: Point) -> Iterable[dict[str, Any]]:
    for name, value in point.values.items():
        # What begins with system/ has a page of its own, by machine.
        key = f"system/{name.removeprefix('machine/')}" if point.of_machine else name
        yield {
            "key": _FOREIGN.sub("_", key),
            "value": value,
            "timestamp": round(1000 * point.time),
            "step": point.at,
        }


def _words(alert: Alert) -> str:
    return f"{alert.summary} {alert.advice}".strip()


def _pairs(items: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"key": _FOREIGN.sub("_", k), "value": v[:LONGEST_VALUE]} for k, v in items]
