"""Files that are here already, or in a directory the user names, need no network."""

import resource

import pytest

from support.bad_server import Reply
from unisono.datasets.fetch import Remote, missing, require
from unisono.datasets.fetch import partial_file as room
from unisono.errors import DataError


@pytest.fixture
def given(tmp_path):
    directory = tmp_path / "given"
    (directory / "inner").mkdir(parents=True)
    return directory


def test_a_file_that_is_here_is_checked_and_used(server, get, known, body):
    get.directory.mkdir()
    (get.directory / "a.gz").write_bytes(body)
    fetched = get(known(server.url("a.gz")))
    assert (fetched.url, fetched.sha256) == ("", known().sha256)
    assert server.asked == []


@pytest.mark.parametrize(
    "content, words", [(b"other", "5 bytes instead of 200,000"), (bytes(200_000), "SHA-256")]
)
def test_a_file_that_is_something_else_is_left_alone(server, get, known, body, content, words):
    get.directory.mkdir()
    (get.directory / "a.gz").write_bytes(content)
    with pytest.raises(DataError, match=words):
        get(known(server.serve("a.gz", Reply(body))))
    assert (get.directory / "a.gz").read_bytes() == content
    assert server.asked == []


def test_a_directory_of_that_name_is_refused(get, known):
    (get.directory / "a.gz").mkdir(parents=True)
    with pytest.raises(DataError, match="not a file"):
        get(known())


@pytest.mark.parametrize("place", [".", "inner"])
def test_a_given_file_is_used_where_it_lies(server, get, known, body, given, place):
    (given / place / "a.gz").write_bytes(body)
    fetched = get(known(server.url("a.gz")), given=given)
    assert (fetched.url, fetched.path) == ("", given / place / "a.gz")
    assert fetched.path.stat().st_nlink == 1
    assert not get.directory.exists()
    assert server.asked == []


def test_a_given_file_may_have_another_of_its_names(get, known, body, given):
    (given / "inner" / "b.gz").write_bytes(body)
    (given / "c.gz").write_bytes(b"another")
    assert get(known(aliases=("b.gz",)), given=given).path == given / "inner" / "b.gz"


def test_a_given_file_that_is_something_else_is_refused(server, get, known, body, given):
    (given / "a.gz").write_bytes(b"other")
    with pytest.raises(DataError, match=r"given/a\.gz: 5 bytes instead of 200,000"):
        get(known(server.serve("a.gz", Reply(body))), given=given)
    assert server.asked == []


def test_the_right_one_of_several_given_files_is_taken(get, known, body, given):
    (given / "a.gz").write_bytes(b"other")
    (given / "inner" / "a.gz").write_bytes(body)
    assert get(known(), given=given).path.read_bytes() == body


def test_what_was_not_given_is_downloaded(server, get, known, body, given):
    assert get(known(server.serve("a.gz", Reply(body))), given=given).path.read_bytes() == body


def test_a_given_directory_must_exist(get, known, tmp_path):
    with pytest.raises(DataError, match="is not a directory"):
        get(known(), given=tmp_path / "nowhere")


def test_offline_asks_nobody(server, get, known, body):
    url = server.serve("a.gz", Reply(body))
    with pytest.raises(DataError) as caught:
        get(known(url), offline=True)
    assert f"a.gz (200 kB): {url}" in str(caught.value)
    assert server.asked == []
    assert not get.directory.exists()


def test_offline_uses_what_is_here_or_given(get, known, body, given):
    (given / "a.gz").write_bytes(body)
    assert get(known(), given=given, offline=True).path.read_bytes() == body
    get.directory.mkdir()
    (given / "a.gz").rename(get.directory / "a.gz")
    assert get(known(), offline=True).path.read_bytes() == body


def test_all_that_is_missing_is_listed(tmp_path, given):
    remotes = [Remote(name, (f"https://host/{name}",), bytes=5_000) for name in "abcd"]
    (tmp_path / "a").touch()
    (given / "inner" / "b").touch()
    assert [remote.name for remote in missing(remotes, tmp_path, given=given)] == ["c", "d"]
    with pytest.raises(DataError) as caught:
        require(remotes, tmp_path, given=given)
    assert "c (5.0 kB): https://host/c\n    d (5.0 kB): https://host/d" in str(caught.value)
    require(remotes[:2], tmp_path, given=given)


def test_nothing_is_begun_that_cannot_fit(server, get, known, body):
    url = server.serve("a.gz", Reply(body))
    with pytest.raises(DataError, match="only .* are free"):
        get(known(url, bytes=1 << 60))
    assert server.asked == []
    assert get.files == []


def test_what_the_server_tells_must_fit_too(server, get, body, monkeypatch):
    usage = room.shutil.disk_usage("/")
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(DataError, match="needs 200 kB more on the disk, and only 1.0 kB"):
        get(Remote("a.gz", (server.serve("a.gz", Reply(body)),)))


def test_a_disk_that_takes_no_more_is_not_blamed_on_the_network(server, get, known, body):
    url = server.serve("a.gz", Reply(body, etag='"1"'))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DataError, match="cannot be stored: File too large"):
            get(known(url))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert get(known(url)).path.read_bytes() == body
    assert server.ranges("a.gz") == ["", "bytes=100000-"]


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/etc/passwd"])
def test_a_part_that_leads_elsewhere_is_refused(get, known, device):
    get.directory.mkdir()
    (get.directory / "a.gz.part").symlink_to(device)
    with pytest.raises(DataError, match="not a plain file"):
        get(known("https://host/a"))


def test_a_directory_that_cannot_be_made_is_named(get, known, tmp_path):
    get.directory = tmp_path / "file" / "inner"
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be stored"):
        get(known("https://host/a"))
