"""The first process of a machine or of the switch: while it lives, they exist."""

import os
import subprocess

from unisono.errors import RunError
from unisono.lab.commands import Argv
from unisono.lab.requirements import search_path


class Holder:
    """A process that holds namespaces open until it is released, or until we die."""

    def __init__(self, argv: Argv) -> None:
        # A session of its own: Ctrl-C at the terminal is not for it. Its standard input
        # ends when it is closed here or when this process is gone, even by kill -9.
        self._process = subprocess.Popen(
            argv,
            env={**os.environ, "PATH": search_path()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.number = self._read_number()

    def _read_number(self) -> str:
        number = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not number.isdecimal():
            _, reason = self._process.communicate()
            raise RunError(
                f"a machine did not start: {' '.join(reason.split()) or 'no reason given'}",
                where="unshare",
                fix="in a container: give it more rights, such as docker run --privileged",
            )
        return number

    def release(self) -> None:
        """End the namespaces and every process in them; return when they are gone."""
        if self._process.returncode is None:
            self._process.communicate()
