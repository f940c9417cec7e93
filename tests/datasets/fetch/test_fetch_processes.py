"""Downloads that are killed are continued; two of one file do not get in each other's way."""

import signal
import subprocess
import sys
import textwrap

import pytest

from support.bad_server import Reply
from unisono.errors import DataError

PROGRAM = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from unisono.datasets.fetch import Remote, fetch

    name, url, directory, sha256 = sys.argv[1:]
    for step in fetch(Remote(name, (url,), sha256=sha256), Path(directory)):
        print(step.done, flush=True)
    """
)


@pytest.fixture
def started(get):
    """Start a process that downloads, and wait until it has `size` bytes."""
    processes = []

    def start(remote, size):
        arguments = [remote.name, remote.urls[0], str(get.directory), remote.sha256]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        while int(process.stdout.readline()) < size:
            pass
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.ranks
def test_a_killed_download_is_continued_by_the_next(server, get, known, body, started):
    url = server.serve("a.gz", Reply(body, stall_after=120_000, etag='"1"'))
    process = started(known(url), 120_000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert "a.gz" not in get.files
    server.serve("a.gz", Reply(body, etag='"1"'))
    server.asked.clear()
    assert get(known(url)).path.read_bytes() == body
    assert [(r.range, r.if_range) for r in server.asked] == [("bytes=120000-", '"1"')]
    assert get.files == ["a.gz"]


@pytest.mark.ranks
def test_an_interrupted_download_leaves_its_part(server, get, known, body, started):
    url = server.serve("a.gz", Reply(body, stall_after=120_000))
    process = started(known(url), 120_000)
    process.send_signal(signal.SIGINT)
    process.wait()
    assert get.files == ["a.gz.part", "a.gz.part.json"]
    assert (get.directory / "a.gz.part").read_bytes() == body[:120_000]


@pytest.mark.ranks
def test_a_second_download_of_the_same_file_is_refused(server, get, known, body, started):
    url = server.serve("a.gz", Reply(body, stall_after=120_000), Reply(body))
    started(known(url), 120_000)
    with pytest.raises(DataError, match="another process is downloading a.gz"):
        get(known(url))
    assert (get.directory / "a.gz.part").read_bytes() == body[:120_000]
