"""Real servers in processes of their own, and how to ask them."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlencode


class RunningServer:
    """`unisono serve` on a free port, with everything that it says."""

    def __init__(self, *words, wait=True):
        command = [sys.executable, "-m", "unisono", "serve", "--port", "0", "--workers", "1"]
        self.process = subprocess.Popen(
            [*command, *map(str, words)], stderr=subprocess.PIPE, text=True
        )
        self.lines, self._news = [], threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = ""
        if wait:
            self.url = re.search(r"http://\S+", self.wait_for("serving"))[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()

    def _read(self):
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.lines.append("<end>")
            self._news.notify_all()

    def wait_for(self, words, seconds=600):
        """Return the first line with `words`, as soon as the server has said it."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not (found := [line for line in self.lines if words in line]):
                assert "<end>" not in self.lines, self.lines
                assert self._news.wait(deadline - time.monotonic()), self.lines
            return found[0]

    def stop(self, number=signal.SIGTERM):
        """Ask it to stop and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def get(self, path):
        return ask(self.url + path)

    def post(self, path, **fields):
        return ask(self.url + path, json.dumps(fields).encode(), "application/json")

    def post_form(self, path, **fields):
        return ask(
            self.url + path, urlencode(fields).encode(), "application/x-www-form-urlencoded"
        )

    def translate(self, text, **fields):
        status, answer = self.post("/translate", **{"q": text, **EN_DE, **fields})
        assert status == 200, answer
        return answer["translatedText"]

    def metric(self, name):
        """Return the value of a counter, whatever its labels; 0 if it is not there."""
        [page] = [ask(self.url + "/metrics", raw=True)]
        rows = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, rows))


EN_DE = {"source": "en", "target": "de"}


def ask(url, body=None, kind=None, headers=None, raw=False):
    """Return the status and the answer, from JSON."""
    request = urllib.request.Request(url, body, {"Content-Type": kind} if kind else {})
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read().decode()
            return text if raw else (response.status, json.loads(text))
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return error.code, json.loads(error.read())
