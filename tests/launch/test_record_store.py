"""A run directory that takes in records of others: each byte once, whatever happens."""

import os
import random
import shutil

import pytest

from unisono.errors import DataError, RunError
from unisono.launch.stream.record_names import names_in
from unisono.launch.stream.record_store import RecordStore

NAME = "events/rank-0001.jsonl"


@pytest.fixture
def here(tmp_path):
    store = RecordStore(tmp_path / "here")
    store.lock()
    yield store
    store.close()


@pytest.fixture
def there(tmp_path):
    """Another directory; `write` adds lines to a file of it."""
    return RecordStore(tmp_path / "there")


def write(store, *lines, name=NAME):
    path = store.run / name
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


def fetch(here, there, name=NAME):
    """Fetch once, as the stream does; return how many bytes came."""
    offset = here.offsets(there.identity).get(name, 0)
    start, data = there.read_own(name, offset)
    here.append(there.identity, name, start, data)
    return len(data)


def lines_of(store, name=NAME):
    return (store.run / name).read_bytes().splitlines()


def test_what_grows_there_comes_here_once_and_only_whole_lines(here, there):
    write(there, b"one", b"two")
    with (there.run / NAME).open("ab") as file:
        file.write(b"tor")
    assert fetch(here, there) == 8
    assert fetch(here, there) == 0
    with (there.run / NAME).open("ab") as file:
        file.write(b"n\n")
    assert fetch(here, there) == 5
    assert lines_of(here) == [b"one", b"two", b"torn"]


def test_the_same_bytes_again_change_nothing(here, there):
    write(there, b"one", b"two")
    fetch(here, there)
    here.append(there.identity, NAME, 0, b"one\ntwo\nthree\n")
    assert lines_of(here) == [b"one", b"two", b"three"]


def test_two_sources_and_own_lines_share_a_file_in_any_order(here, there, tmp_path):
    """After a restart with fewer machines, another machine may be the same rank."""
    sources = {"a": there, "b": RecordStore(tmp_path / "b"), "here": here}
    rng, written = random.Random(7), []
    for number in range(200):
        name = rng.choice(list(sources))
        written.append(f"{name} {number}".encode())
        write(sources[name], written[-1])
        if rng.random() < 0.5:
            for other in (there, sources["b"]):
                if (other.run / NAME).exists():
                    fetch(here, other)
    for other in (there, sources["b"]):
        fetch(here, other)
    assert sorted(lines_of(here)) == sorted(written)
    for name in sources:
        mine = [line for line in written if line.startswith(name.encode())]
        assert [line for line in lines_of(here) if line.startswith(name.encode())] == mine


def test_what_was_added_is_not_given_away_as_own_but_can_be_passed_on(here, there, tmp_path):
    leader = RecordStore(tmp_path / "leader")
    leader.lock()
    write(leader, b"own 1")
    write(there, b"theirs 1", b"theirs 2")
    fetch(here, there)
    start, data = here.read_from(there.identity, NAME, 0)
    leader.append(there.identity, NAME, start, data)
    write(leader, b"own 2")
    fetch(here, leader)
    fetch(here, leader)
    assert sorted(lines_of(here)) == [b"own 1", b"own 2", b"theirs 1", b"theirs 2"]
    assert lines_of(leader) == [b"own 1", b"theirs 1", b"theirs 2", b"own 2"]
    leader.close()


class KilledError(Exception):
    """Stands for SIGKILL at a certain place."""


@pytest.mark.parametrize("moment", ["before", "after", "within"])
def test_a_process_killed_while_it_adds_leaves_nothing_to_guess(
    here, there, moment, monkeypatch
):
    write(there, b"one")
    fetch(here, there)
    write(there, b"two", b"three")
    real = os.write

    def dying(handle, data):
        kept = {"before": 0, "after": len(data), "within": 5}[moment]
        real(handle, data[:kept])
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("unisono.launch.stream.record_store.os.write", dying)
        with pytest.raises(KilledError):
            fetch(here, there)
    here.close()
    write(here, b"own") if moment == "after" else None
    again = RecordStore(here.run)
    again.lock()
    fetch(again, there)
    again.close()
    expected = [b"one", b"two", b"three", *([b"own"] if moment == "after" else [])]
    assert lines_of(again) == expected


def test_bytes_that_are_gone_here_are_fetched_again(here, there):
    write(there, b"one", b"two", b"three")
    fetch(here, there)
    here.close()
    os.truncate(here.run / NAME, 5)
    again = RecordStore(here.run)
    again.lock()
    fetch(again, there)
    assert lines_of(again) == [b"one", b"two", b"three"]
    again.close()


def test_a_copy_with_a_new_identity_gives_only_what_is_new(here, there, tmp_path):
    write(there, b"one")
    fetch(here, there)
    shutil.copytree(there.run, tmp_path / "copy")
    copy = RecordStore(tmp_path / "copy")
    assert copy.identity == there.identity
    copy.renew()
    assert copy.identity != there.identity
    write(copy, b"two")
    write(there, b"three")
    fetch(here, copy)
    fetch(here, there)
    assert lines_of(here) == [b"one", b"two", b"three"]
    copy.close()


def test_only_one_process_adds(here, monkeypatch):
    monkeypatch.setattr("unisono.launch.stream.record_store._LOCK_ATTEMPTS", 1)
    with pytest.raises(RunError, match="already fetching"):
        RecordStore(here.run).lock()


@pytest.mark.parametrize(
    "name",
    [
        *("../events/rank-0001.jsonl", "/etc/passwd", "events/../../x", "lock", ""),
        *("events/rank-0001.jsonl\n", "stream/state.json", "stream/id", "stream/launch.json"),
        *("checkpoints/latest", "tensorboard/../config.toml", "events/rank-١٢٣٤.jsonl"),
    ],
)
def test_no_other_name_is_read_or_written(here, name):
    for act in (
        lambda: here.append("x" * 32, name, 0, b"data\n"),
        lambda: here.replace("x" * 32, name, 0, b"data"),
        lambda: here.read_own(name, 0),
    ):
        with pytest.raises(DataError, match="does not travel"):
            act()


def test_links_are_neither_followed_nor_listed(here, there, tmp_path):
    (tmp_path / "secret").write_text("private\n")
    for store in (here, there):
        (store.run / "events").mkdir()
        (store.run / NAME).symlink_to(tmp_path / "secret")
    assert list(names_in(there.run)) == []
    with pytest.raises(OSError, match="Too many levels"):
        here.append(there.identity, NAME, 0, b"x\n")
    assert (tmp_path / "secret").read_text() == "private\n"
