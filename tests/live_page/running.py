"""Real runs and real servers of the live page, in processes of their own."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

from support.tiny import tiny_settings
from unisono.config.load import to_toml

NEVER = 1_000_000


def write_config(home, directory, name="run", **tables):
    """Write the settings of a run that validates and saves often, and goes on and on."""
    settings = tiny_settings(
        home,
        run=directory / name,
        **{
            "train": {"max_steps": NEVER},
            "validation": {"every_steps": 20},
            "checkpoint": {"every_steps": 20},
            "monitor": {"on": True},
            **tables,
        },
    )
    path = directory / f"{name}.toml"
    path.write_text(to_toml(settings))
    return path


@contextlib.contextmanager
def training(config):
    """A process that trains, from its first update on; a signal ends it if nothing else has."""
    command = [sys.executable, "-m", "unisono", "train", str(config)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if "step" in line:
                break
        assert process.poll() is None, said
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            drain.join()


class RunningPage:
    """`unisono watch --web` on a free port, until the end of the block."""

    def __init__(self, *words, program=""):
        unisono = ["-c", program] if program else ["-m", "unisono"]
        command = [sys.executable, *unisono, "watch", "--web", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.link = ""
        for line in self.process.stdout:
            if found := re.search(r"http://\S+", line):
                self.link = found[0]
                break

    def __enter__(self):
        assert self.link, self.process.communicate()
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self, number=signal.SIGTERM):
        """End it; return its exit code, and what else it said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out + err

    @property
    def port(self):
        return urlsplit(self.link).port

    def ask(self, target="/", host=None, **headers):
        """Send a request; return status, headers and the body, as they came."""
        lines = [f"GET {target} HTTP/1.1", f"Host: {host or f'localhost:{self.port}'}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        with self.connected() as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = b""
            while part := connection.recv(65536):
                answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *rest = head.decode().split("\r\n")
        pairs = [line.partition(": ") for line in rest]
        return int(status.split()[1]), {n.lower(): v for n, _, v in pairs}, body.decode()

    def connected(self):
        """Return a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)
