"""Broken downloads are continued, and never glued together from two files."""

import hashlib
import json
import random

import pytest

from support.bad_server import Reply
from unisono.datasets.fetch import Remote, RetryPolicy, fetch
from unisono.errors import DataError

OTHER = random.Random(6).randbytes(200_000)


def unknown(*urls):
    return Remote("a.gz", urls)


def test_the_file_comes_and_is_checked(server, get, known, body):
    url = server.serve("a.gz", Reply(body))
    fetched = get(known(url))
    assert fetched.path.read_bytes() == body
    assert (fetched.url, fetched.bytes) == (url, len(body))
    assert fetched.sha256 == hashlib.sha256(body).hexdigest()
    assert fetched.md5 == hashlib.md5(body).hexdigest()
    assert get.files == ["a.gz"]
    assert get.progress[-1].done == get.progress[-1].total == len(body)
    assert server.asked[0].headers["User-Agent"].startswith("unisono/")
    assert server.asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("reset", [False, True])
def test_a_broken_connection_is_continued_from_where_it_broke(server, get, known, body, reset):
    broken = Reply(body, etag='"1"', break_after=70_000, reset=reset)
    url = server.serve("a.gz", broken, Reply(body, etag='"1"'))
    assert get(known(url)).path.read_bytes() == body
    first, second = server.ranges("a.gz")
    assert first == ""
    if not reset:  # with a reset the last bytes may be lost on the way
        assert second == "bytes=70000-"
    assert server.asked[1].if_range == ('"1"' if second else "")
    assert get.pauses == [1.0]


def test_a_stalled_connection_counts_as_broken(server, get, known, body):
    url = server.serve("a.gz", Reply(body, stall_after=1000), Reply(body))
    quick = RetryPolicy(timeout=1.0, sleep=get.pauses.append)
    assert get(known(url), policy=quick).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", "bytes=1000-"]
    assert any("stalled" in step.note for step in get.progress)


def test_a_connection_that_only_drips_counts_as_broken(server, get, known, body):
    url = server.serve("a.gz", Reply(body, drip=0.02), Reply(body))
    quick = RetryPolicy(timeout=1.0, sleep=get.pauses.append)
    assert get(known(url), policy=quick).path.read_bytes() == body
    assert any("fewer than 1024 bytes" in step.note for step in get.progress)


def test_the_next_call_continues(server, get, known, body):
    url = server.serve("a.gz", Reply(body, break_after=5_000, etag='"1"'))
    with pytest.raises(DataError, match="continues where it stopped"):
        get(known(url))
    assert get.files == ["a.gz.part", "a.gz.part.json"]
    url = server.serve("a.gz", Reply(body, etag='"1"'))
    server.asked.clear()
    assert get(known(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["bytes=20000-"]
    assert get.files == ["a.gz"]


def test_without_checksum_the_server_must_promise_the_same_version(server, get, body):
    url = server.serve(
        "a.gz", Reply(body, break_after=70_000, etag='"1"'), Reply(OTHER, etag='"2"')
    )
    assert get(unknown(url)).path.read_bytes() == OTHER
    assert server.asked[1].if_range == '"1"'


def test_a_server_that_breaks_its_promise_is_caught(server, get, body):
    changed = Reply(OTHER, etag='"2"', obey_if_range=False)
    url = server.serve("a.gz", Reply(body, break_after=70_000, etag='"1"'), changed)
    assert get(unknown(url)).path.read_bytes() == OTHER
    assert server.ranges("a.gz") == ["", "bytes=70000-", ""]


def test_the_date_names_the_version_where_there_is_no_strong_etag(server, get, body):
    date = "Tue, 15 Nov 1994 12:45:26 GMT"
    facts = {"etag": 'W/"1"', "date": date}
    url = server.serve("a.gz", Reply(body, break_after=70_000, **facts), Reply(body, **facts))
    assert get(unknown(url)).path.read_bytes() == body
    assert server.asked[1].if_range == date


def test_without_version_and_checksum_it_starts_over(server, get, body):
    url = server.serve("a.gz", Reply(body, break_after=70_000), Reply(OTHER))
    assert get(unknown(url)).path.read_bytes() == OTHER
    assert server.ranges("a.gz") == ["", ""]


def test_another_mirror_continues_only_with_a_checksum(server, mirror, get, known, body):
    first = server.serve("a.gz", Reply(body, break_after=10_000, etag='"1"'))
    second = mirror.serve("a.gz", Reply(body, etag='"2"'))
    fetched = get(known(first, second))
    assert fetched.path.read_bytes() == body
    assert fetched.url == second
    assert mirror.ranges("a.gz") == ["bytes=40000-"]
    assert mirror.asked[0].if_range == ""  # a version is a word of one server
    fetched.path.unlink()
    mirror.asked.clear()
    assert get(unknown(first, second)).path.read_bytes() == body
    assert mirror.ranges("a.gz") == [""]


def test_a_wrong_mixture_is_started_over_once(server, mirror, get, known, body):
    first = server.serve("a.gz", Reply(OTHER, break_after=10_000))
    second = mirror.serve("a.gz", Reply(body))
    assert get(known(first, second)).path.read_bytes() == body
    assert mirror.ranges("a.gz") == ["bytes=40000-", ""]


def test_starting_over_happens_once(server, get, known, body):
    url = server.serve("a.gz", Reply(OTHER, break_after=70_000), Reply(OTHER))
    with pytest.raises(DataError, match="SHA-256"):
        get(known(url))
    assert server.ranges("a.gz") == ["", "bytes=70000-", ""]
    assert get.files == []


def test_a_server_that_breaks_and_cannot_continue_is_given_up(server, get, known, body):
    url = server.serve("a.gz", Reply(body, break_after=70_000, content_range="nonsense"))
    with pytest.raises(DataError, match="nonsense"):
        get(known(url))
    assert server.ranges("a.gz") == ["", "bytes=70000-"] * 2


def test_a_part_with_wrong_bytes_is_started_over(server, get, known, body):
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(OTHER)
    assert get(known(server.serve("a.gz", Reply(body)))).path.read_bytes() == body
    assert server.ranges("a.gz") == [""]


def test_a_server_that_knows_no_ranges_sends_it_all(server, get, known, body):
    url = server.serve("a.gz", Reply(body, break_after=70_000), Reply(body, ranges=False))
    assert get(known(url)).path.read_bytes() == body


def test_a_server_that_always_breaks_at_the_same_place_is_given_up(server, get, known, body):
    url = server.serve("a.gz", Reply(body, break_after=150_000, ranges=False))
    quick = RetryPolicy(sleep=get.pauses.append, progress_bytes=1000)
    with pytest.raises(DataError, match="broke after 150,000 of 200,000"):
        get(known(url), policy=quick)
    assert len(server.asked) == 1 + len(quick.pauses)


def test_as_long_as_it_moves_nobody_gives_up(server, get, known, body):
    url = server.serve("a.gz", Reply(body, break_after=10_000))
    quick = RetryPolicy(sleep=get.pauses.append, progress_bytes=10_000)
    assert get(known(url), policy=quick).path.read_bytes() == body
    assert len(server.asked) == 20


@pytest.mark.parametrize(
    "said",
    [
        "bytes 0-199999/200000",
        "bytes 70001-199999/200000",
        "bytes */200000",
        "nonsense",
        "bytes 70000-69999/200000",
        "bytes 70000-150000/200000",
        "bytes 70000-199999/100",
    ],
)
def test_a_wrong_range_is_not_trusted(server, get, known, body, said):
    wrong = Reply(body, content_range=said)
    url = server.serve("a.gz", Reply(body, break_after=70_000), wrong, Reply(body))
    assert get(known(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", "bytes=70000-", ""]


def test_a_range_of_another_size_is_another_file(server, get, body):
    shrunk = Reply(body[:150_000], etag='"1"')
    url = server.serve("a.gz", Reply(body, break_after=70_000, etag='"1"'), shrunk)
    assert get(unknown(url)).bytes == 150_000
    assert server.ranges("a.gz") == ["", "bytes=70000-", ""]


def test_a_range_of_a_file_without_size_may_be_any_part_of_it(server, get, body):
    """The rest of an unknown file could be cut short, and nobody would know."""
    torn = Reply(body, chunked=True, break_after=70_000, etag='"1"')
    some = Reply(body[:150_000], etag='"1"', content_range="bytes 70000-149999/*")
    url = server.serve("a.gz", torn, some, Reply(body, etag='"1"'))
    assert get(unknown(url)).path.read_bytes() == body


def test_a_range_may_bring_less_than_was_asked_for(server, get, known, body):
    some = Reply(body[:150_000], content_range="bytes 70000-149999/200000")
    url = server.serve("a.gz", Reply(body, break_after=70_000), some, Reply(body))
    assert get(known(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", "bytes=70000-", "bytes=150000-"]


def test_what_cannot_be_continued_is_not_promised(server, get, body):
    url = server.serve("a.gz", Reply(body, break_after=70_000))
    with pytest.raises(DataError, match="try again later"):
        get(unknown(url))


def test_a_complete_part_needs_no_request(server, get, known, body):
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(body)
    assert get(known(server.serve("a.gz", Reply(body)))).path.read_bytes() == body
    assert server.asked == []


def test_a_complete_part_from_somewhere_else_is_not_trusted(server, get, body):
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(OTHER)
    (get.directory / "a.gz.part.json").write_text('{"url": "https://else.where/a.gz"}')
    url = server.serve("a.gz", Reply(body))
    assert get(Remote("a.gz", (url,), bytes=len(body))).path.read_bytes() == body


def test_a_complete_part_from_the_same_place_needs_no_request(server, get, body):
    get.directory.mkdir()
    url = server.serve("a.gz", Reply(OTHER))
    (get.directory / "a.gz.part").write_bytes(body)
    (get.directory / "a.gz.part.json").write_text(json.dumps({"url": url, "total": len(body)}))
    fetched = get(unknown(url))
    assert (fetched.url, fetched.path.read_bytes()) == (url, body)
    assert server.asked == []


def test_a_complete_part_of_unknown_size_is_known_by_its_checksum(server, get, known, body):
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(body)
    assert get(known(server.url("a.gz"), bytes=0)).bytes == len(body)
    assert server.asked == []


def test_a_part_that_is_too_long_is_dropped(server, get, known, body):
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(body + b"more")
    assert get(known(server.serve("a.gz", Reply(body)))).path.read_bytes() == body
    assert server.ranges("a.gz") == [""]


def test_nothing_left_means_complete(server, get, body):
    """A chunked body without length broke between its last byte and its end."""
    torn = Reply(body, chunked=True, break_after=len(body), etag='"1"')
    url = server.serve("a.gz", torn, Reply(body, etag='"1"'))
    assert get(unknown(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", f"bytes={len(body)}-"]


@pytest.mark.parametrize("said", ["bytes */1000", "", "bytes */x"])
def test_a_part_longer_than_the_file_is_dropped(server, get, known, body, said):
    refusal = Reply(status=416, content_range=said)
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(body[:5000])
    url = server.serve("a.gz", refusal, Reply(body))
    assert get(known(url, bytes=0)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["bytes=5000-", ""]


def test_without_checksum_too_a_part_longer_than_the_file_is_dropped(server, get, body):
    torn = Reply(body, etag='"1"', break_after=70_000, chunked=True)
    refusal = Reply(status=416, content_range="bytes */1000", etag='"1"')
    url = server.serve("a.gz", torn, refusal, Reply(body[:1000], etag='"2"'))
    assert get(unknown(url)).path.read_bytes() == body[:1000]


PAGE = b"<html>We have moved</html>"
SOMETHING_ELSE = [
    Reply(PAGE),
    Reply(PAGE, ranges=False),
    Reply(PAGE, ranges=False, chunked=True),
    Reply(PAGE, status=404),
    Reply(OTHER[:1000], content_range="bytes 70000-100000/100001"),
    Reply(OTHER + OTHER, etag='"2"'),
]


@pytest.mark.parametrize("reply", SOMETHING_ELSE)
def test_a_mirror_with_something_else_does_not_cost_what_is_here(
    server, mirror, get, known, body, reply
):
    urls = server.serve("a.gz", Reply(body, break_after=20_000)), mirror.serve("a.gz", reply)
    with pytest.raises(DataError, match=r"80\.0 kB arrived and are kept"):
        get(known(*urls))
    assert (get.directory / "a.gz.part").read_bytes() == body[:80_000]


DAMAGED = ["", "{", "[]", '{"url": 3}', '{"url": "URL", "total": -1}', "\xff"]
BAD_VERSION = '{"url": "URL", "version": "a\\nb"}'


@pytest.mark.parametrize("note", [*DAMAGED, BAD_VERSION])
def test_a_damaged_note_is_an_unknown_origin(server, get, body, note):
    url = server.serve("a.gz", Reply(body, etag='"1"'))
    get.directory.mkdir()
    (get.directory / "a.gz.part").write_bytes(OTHER[:5000])
    (get.directory / "a.gz.part.json").write_text(note.replace("URL", url), encoding="latin-1")
    assert get(unknown(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == [""]


def test_giving_up_in_the_middle_leaves_the_part(server, get, known, body):
    url = server.serve("a.gz", Reply(body, stall_after=120_000))
    steps = fetch(known(url), get.directory, policy=get.policy)
    while next(steps).done < 120_000:
        pass
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt)
    assert (get.directory / "a.gz.part").read_bytes() == body[:120_000]
    assert get.files == ["a.gz.part", "a.gz.part.json"]
