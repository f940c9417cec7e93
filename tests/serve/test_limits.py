"""Limits of a real server: how often a client may ask, and how long a translation may take."""

import contextlib
import json
import time
from http.client import HTTPConnection

import pytest

from serve.running import EN_DE, RunningServer

pytestmark = pytest.mark.ranks


def asked(server, **fields):
    """Return status, headers and answer of a translation."""
    with contextlib.closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        body = json.dumps({"q": "to be", **EN_DE, **fields})
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())


def test_who_asks_too_often_is_told_when_to_ask_again(bundle, tmp_path):
    (tmp_path / "keys").write_text("a-good-key\nanother-key\n")
    with RunningServer(bundle.path, "--rate", "1", "--keys", tmp_path / "keys") as server:
        for _ in range(20):  # so many would take 19 minutes
            status, headers, answer = asked(server, api_key="a-good-key")
            if status != 200:
                break
        assert status == 429
        assert 0 < int(headers["Retry-After"]) <= 60
        assert "1 per 1 minute" in answer["error"]
        assert asked(server, api_key="another-key")[0] == 200
        assert server.get("/languages")[0] == 200


def test_a_translation_that_takes_too_long_is_given_up(bundle):
    text = "\n".join(f"word {n}" for n in range(9_000))
    with RunningServer(bundle.path, "--timeout", "1") as server:
        status, _, answer = asked(server, q=text)
        assert status == 504
        assert "took too long" in answer["error"]
        # The rest is not translated for nobody.
        while server.metric("unisono_waiting_sentences"):
            time.sleep(0.02)
        while asked(server)[0] != 200:
            time.sleep(0.2)
        assert server.metric("unisono_batch_sentences_sum") < 9_000
