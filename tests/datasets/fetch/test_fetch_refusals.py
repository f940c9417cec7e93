"""What servers send in place of a file: refused, with a reason, and the next one is asked."""

import gzip
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from support.bad_server import Reply
from unisono.datasets.fetch import Remote, RetryPolicy, attempt, fetch
from unisono.errors import ConfigError, DataError

PAGE = b"<!DOCTYPE html><html><body>We have moved.</body></html>"


def refused(get, remote, *words):
    """Fetch in vain; the error names every address and holds all `words`."""
    with pytest.raises(DataError) as caught:
        get(remote)
    text = str(caught.value)
    for word in (*remote.urls, "--from DIR", f"save it as {remote.name}", *words):
        assert word in text
    assert "a.gz" not in get.files
    return text


def test_wrong_bytes_are_refused_and_the_next_mirror_is_asked(server, mirror, get, known, body):
    wrong = server.serve("a.gz", Reply(bytes(len(body))))
    right = mirror.serve("a.gz", Reply(body))
    assert get(known(wrong, right)).url == right
    assert len(server.asked) == 1  # asking again would not help
    assert get.pauses == []


def test_wrong_bytes_everywhere(server, mirror, get, known, body):
    first = server.serve("a.gz", Reply(bytes(len(body))))
    second = mirror.serve("a.gz", Reply(b"x" * len(body)))
    text = refused(get, known(first, second), "SHA-256", 'begins with "xxxx')
    assert text.count("instead of") == 2
    assert get.files == []


def test_a_wrong_md5_is_refused(server, get, known, body):
    url = server.serve("a.gz", Reply(body))
    refused(get, known(url, md5="0" * 32), "MD5", "instead of " + "0" * 32)


def test_a_web_page_in_place_of_the_file_is_shown(server, get, known):
    url = server.serve("a.gz", Reply(PAGE))
    refused(get, known(url), "instead of 200,000", "web page", "<!DOCTYPE html>")


@pytest.mark.parametrize("drip", [0.0, 0.005], ids=["at once", "bit by bit"])
def test_a_web_page_is_never_trusted_at_first_use(server, get, drip):
    url = server.serve("a.gz", Reply(b"\n\n<HTML><head>", drip=drip))
    refused(get, Remote("a.gz", (url,)), "web page")


def test_an_empty_file_is_never_trusted_at_first_use(server, get):
    refused(get, Remote("a.gz", (server.serve("a.gz", Reply(b"")),)), "nothing arrived")


def test_anything_else_is_trusted_at_first_use(server, get, body):
    url = server.serve("a.gz", Reply(body))
    assert len(get(Remote("a.gz", (url,))).sha256) == 64


@pytest.mark.parametrize("size", [199_999, 200_001])
def test_a_file_of_another_size_is_refused_before_it_is_read(server, get, known, body, size):
    url = server.serve("a.gz", Reply((body * 2)[:size]))
    refused(get, known(url), f"offers {size:,} bytes instead of 200,000")
    assert get.progress == []


def test_a_length_that_is_too_short_does_not_pass_for_the_file(server, get, known, body):
    url = server.serve("a.gz", Reply(body, length=1000))
    refused(get, known(url), "offers 1,000 bytes")
    refused(get, known(url, bytes=0), "SHA-256")


def test_a_length_that_is_too_long_is_not_waited_for(server, get, known, body):
    url = server.serve("a.gz", Reply(body, length=300_000))
    refused(get, known(url), "offers 300,000 bytes")
    # Of unknown size: the connection seems to break, and then the checksum fits.
    assert get(known(url, bytes=0)).path.read_bytes() == body


def test_without_checksum_a_length_that_is_too_long_is_an_error(server, get, body):
    url = server.serve("a.gz", Reply(body, length=300_000))
    refused(get, Remote("a.gz", (url,)), "broke after 200,000 of 300,000 bytes")


@pytest.mark.parametrize("form", [{"chunked": True}, {"undelimited": True}])
def test_a_body_without_length_is_read_to_its_end(server, get, known, body, form):
    url = server.serve("a.gz", Reply(body, **form))
    assert get(known(url)).path.read_bytes() == body
    get.directory.joinpath("a.gz").unlink()
    assert get(known(url, bytes=0)).path.read_bytes() == body


def test_no_more_is_read_than_the_file_may_have(server, get, known, body):
    url = server.serve("a.gz", Reply(body * 50, chunked=True))
    refused(get, known(url), "sends more than the 200,000 bytes")
    assert get.files == []
    assert max(step.done for step in get.progress) <= 200_000


def test_a_server_that_never_ends_is_stopped(server, get, body, monkeypatch):
    monkeypatch.setattr(attempt, "LARGEST_DOWNLOAD", 100_000)
    url = server.serve("a.gz", Reply(body, chunked=True))
    refused(get, Remote("a.gz", (url,)), "sends more than the 100,000 bytes")
    url = server.serve("a.gz", Reply(body))
    refused(get, Remote("a.gz", (url,)), "too much")


def test_a_chunked_body_that_ends_early_is_continued_or_refused(server, get, known, body):
    url = server.serve("a.gz", Reply(body[:1000], chunked=True))
    refused(get, known(url), "offers 1,000 bytes instead of 200,000")


def test_a_chunked_body_that_breaks_is_continued(server, get, known, body):
    url = server.serve("a.gz", Reply(body, chunked=True, break_after=1000), Reply(body))
    assert get(known(url)).path.read_bytes() == body


def test_nobody_can_know_the_end_of_a_body_without_end(server, get, body):
    url = server.serve("a.gz", Reply(body, undelimited=True))
    refused(get, Remote("a.gz", (url,)), "does not say how long")


def test_a_body_without_end_that_breaks_is_continued(server, get, known, body):
    torn = Reply(body, undelimited=True, break_after=1000)
    url = server.serve("a.gz", torn, Reply(body))
    assert get(known(url, bytes=0)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", "bytes=1000-"]


def test_another_form_of_the_file_is_not_the_file(server, get, known, body):
    packed = Reply(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    url = server.serve("a.txt", packed)
    remote = Remote("a.txt", (url,), sha256=known().sha256)
    refused(get, remote, 'Content-Encoding "gzip"')


def test_a_gz_file_that_is_called_encoded_is_judged_by_its_checksum(server, get, known, body):
    url = server.serve("a.gz", Reply(body, headers={"Content-Encoding": "x-gzip"}))
    refused(get, Remote("a.gz", (url,)), "Content-Encoding")
    assert get(known(url)).path.read_bytes() == body


@pytest.mark.parametrize("status", [401, 403, 404, 410, 304, 206, 416])
def test_a_refusal_leads_to_the_next_mirror_at_once(server, mirror, get, known, body, status):
    first = server.serve("a.gz", Reply(b"no", status=status))
    second = mirror.serve("a.gz", Reply(body))
    assert get(known(first, second)).url == second
    assert len(server.asked) == 1
    assert get.pauses == []


def test_the_answers_of_all_mirrors_are_listed(server, mirror, get, known):
    first = server.serve("a.gz", Reply(b"", status=403))
    text = refused(get, known(first, mirror.url("a.gz")), "403 Forbidden", "404 Not Found")
    assert text.index("403 Forbidden") < text.index("404 Not Found")  # ports have digits, too


@pytest.mark.parametrize("status", [429, 500, 502, 503, 408])
def test_a_busy_server_is_asked_again(server, get, known, body, status):
    busy = Reply(b"", status=status)
    url = server.serve("a.gz", busy, busy, busy, Reply(body))
    assert get(known(url)).path.read_bytes() == body
    assert get.pauses == [1.0, 2.0, 4.0]


def test_a_server_that_stays_busy_is_given_up(server, mirror, get, known, body):
    first = server.serve("a.gz", Reply(b"", status=503))
    second = mirror.serve("a.gz", Reply(body))
    assert get(known(first, second)).url == second
    assert len(server.asked) == 4


def test_a_server_may_ask_for_a_longer_pause(server, get, known, body):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    waits = ["7", soon, "soon"]
    replies = [Reply(b"", status=503, headers={"Retry-After": wait}) for wait in waits]
    url = server.serve("a.gz", *replies, Reply(body))
    get(known(url))
    assert get.pauses[0] == 7.0
    assert 2.0 < get.pauses[1] <= 30.0
    assert get.pauses[2] == 4.0
    assert any("503" in step.note for step in get.progress)


def test_nobody_waits_for_an_hour(server, get, known):
    later = Reply(b"", status=503, headers={"Retry-After": "3600"})
    refused(get, known(server.serve("a.gz", later)), "come back in 1 h 00 min")
    assert get.pauses == []


def test_a_file_that_vanishes_in_the_middle_is_asked_for_again(server, get, known, body):
    """Addresses that expire are renewed by the redirect that led to them."""
    expired = Reply(b"", status=403)
    url = server.serve("a.gz", Reply(body, break_after=1000), expired, Reply(body))
    assert get(known(url)).path.read_bytes() == body
    assert server.ranges("a.gz")[-1] == "bytes=1000-"


def test_a_redirect_is_followed_with_the_range(server, mirror, get, known, body):
    there = mirror.serve(
        "b.gz", Reply(body, etag='"1"', break_after=1000), Reply(body, etag='"1"')
    )
    url = server.serve("a.gz", Reply(status=302, headers={"Location": there}))
    assert get(known(url)).url == url
    assert mirror.ranges("b.gz") == ["", "bytes=1000-"]
    assert mirror.asked[1].if_range == '"1"'


def test_a_redirect_may_be_relative(server, get, known, body):
    server.serve("there/b.gz", Reply(body))
    url = server.serve("a.gz", Reply(status=307, headers={"Location": "there/b.gz"}))
    assert get(known(url)).path.read_bytes() == body


def test_a_redirect_may_hold_any_letters(server, get, known, body):
    server.serve("%C3%A4%20b.gz", Reply(body))
    url = server.serve("a.gz", Reply(status=302, headers={"Location": "/\u00c3\u00a4 b.gz"}))
    assert get(known(url)).path.read_bytes() == body


def test_redirects_end(server, get, known):
    url = server.serve("a.gz", Reply(status=301, headers={"Location": "/a.gz"}))
    refused(get, known(url), "redirects more than 5 times")
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/a",
        "data:,a",
        "",
        "https:///a",
        "http://[x",
        "http://u@h/a",
    ],
)
def test_a_redirect_leads_to_web_servers_only(server, get, known, place):
    url = server.serve("a.gz", Reply(status=302, headers={"Location": place}))
    refused(get, known(url), "not a web address")


def test_without_checksum_a_redirect_must_stay_encrypted(server, get):
    away = Reply(status=302, headers={"Location": "http://example.invalid/a.gz"})
    refused(get, Remote("a.gz", (server.serve("a.gz", away),)), "not encrypted")


def test_nobody_listens(get, known):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a.gz"
        refused(get, known(url), "connection refused")
    assert get.pauses == []


def test_a_name_that_does_not_exist(get, known):
    with pytest.raises(DataError, match=r"https://corpus\.invalid/a\.gz: the name of the host"):
        get(known("http://corpus.invalid/a.gz"))


def test_a_server_that_hangs_up_without_a_word(get, known):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/a.gz"
        steps = fetch(known(url), get.directory, policy=RetryPolicy(timeout=0.1, pauses=()))
        with pytest.raises(DataError, match="does not answer"):
            list(steps)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/a",
        "a.gz",
        "https://",
        "https://u:p@host/a",
        "https://h:x/a",
        "",
    ],
)
def test_only_web_addresses_are_taken(url):
    with pytest.raises(ConfigError, match="not an address"):
        Remote("a.gz", (url,))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../a",
        "a\\b",
        "a\0b",
        ".hidden",
        "a.part",
        "a.part.json",
        "a" * 300,
    ],
)
def test_only_plain_names_are_taken(name):
    with pytest.raises(ConfigError, match="cannot be the name"):
        Remote(name, ())


@pytest.mark.parametrize("facts", [{"sha256": "abc"}, {"md5": "Z" * 32}, {"bytes": -1}])
def test_facts_are_checked(facts):
    with pytest.raises(ConfigError):
        Remote("a.gz", (), **facts)
