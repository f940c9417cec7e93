"""Unix sockets that no other user reaches."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from unisono.errors import RunError
from unisono.secure.channel import StrangerError, accept
from unisono.secure.private_socket import (
    is_served,
    listen_private,
    private_directory,
    private_path,
)

AS_ANOTHER = """
import os, socket, sys
os.setuid(65534)
print(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))
"""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="acting as another user needs root")


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """A short directory that all may enter, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        Path(path).chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield


def test_a_name_in_use_is_an_error_and_one_left_behind_is_taken_over():
    listening, path = listen_private("store-7")
    assert is_served(path)
    assert path == private_path("store-7")
    with pytest.raises(RunError, match="another run uses it"):
        listen_private("store-7")
    other, elsewhere = listen_private("store-8")
    listening.close()
    assert not is_served(path)
    again, same = listen_private("store-7")
    assert same == path
    assert is_served(path)
    assert is_served(elsewhere)  # the living are spared
    other.close()
    again.close()


@needs_root
def test_another_user_does_not_reach_it():
    listening, path = listen_private("store-7")
    with listening:
        done = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER, path], capture_output=True, text=True, check=True
        )
    assert int(done.stdout) == 13  # EACCES


@needs_root
def test_another_user_is_refused_even_if_the_directory_is_open():
    listening, path = listen_private("store-7")
    private_directory().chmod(0o755)
    Path(path).chmod(0o777)
    with listening, subprocess.Popen([sys.executable, "-c", AS_ANOTHER, path]):
        connection, _ = listening.accept()
        with connection, pytest.raises(StrangerError, match="another user"):
            accept(connection, bytes(32), 10)
    with pytest.raises(RunError, match="other users can enter"):
        private_directory()


def test_a_directory_that_another_has_made_is_refused():
    path = Path(tempfile.gettempdir()) / f"unisono-{os.geteuid()}"
    path.symlink_to("/tmp")
    with pytest.raises(RunError, match="not yours"):
        private_directory()


def test_where_no_directory_can_be_made_that_is_told(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    with pytest.raises(RunError, match="cannot make a directory"):
        private_directory()
