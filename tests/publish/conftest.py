import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from diagnose.made_runs import start, step, validated
from diagnose.made_samples import gpu, machine, samples
from unisono.records.events import to_line
from unisono.records.monitor_events import to_line as sampled_line


def tell(run, *events, rank=0):
    """Add events to the file of a process, as the process itself does."""
    with (run / "events" / f"rank-{rank:04d}.jsonl").open("ab") as file:
        file.write(b"".join(to_line(event) + b"\n" for event in events))


@pytest.fixture
def run(tmp_path):
    """A run of two processes on two machines that has made thirty updates."""
    run = tmp_path / "run"
    (run / "events").mkdir(parents=True)
    (run / "config.toml").write_text("[train]\nmax_steps = 200\n")
    for rank, host in enumerate(("alpha", "beta")):
        steps = [step(number) for number in range(1, 31)]
        tell(run, start(rank=rank, size=2, host=host), *steps, rank=rank)
    tell(run, validated(20, 2.5, bleu=12.5, chrf=40.0))
    log = run / "monitor" / "rank-0000.jsonl"
    log.parent.mkdir()
    events = [machine(), *samples(count=30, gpus=[gpu(150.0)])]
    log.write_bytes(b"".join(sampled_line(event) + b"\n" for event in events))
    return run


class _Receiver(ThreadingHTTPServer):
    """A real server for a webhook; `answers` are the codes it gives, then 200 for ever."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken, self.headers, self.answers, self.seen = [], [], [], 0
        self.times = {}  # when the first alert of each kind came

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/hook?token=verysecret"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen += 1
        code = self.server.answers.pop(0) if self.server.answers else 200
        if code == 200:
            self.server.taken.append(body)
            self.server.headers.append(self.headers)
            self.server.times.setdefault(body.get("kind"), time.time())
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    with _Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
