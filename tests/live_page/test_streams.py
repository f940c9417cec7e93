"""What a browser hears while the page changes, from the server and its reader themselves."""

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import replace

from live_page.made_files import add_events, write_run
from live_page.test_hub import Browser
from report.rich_run import rich_run
from unisono.errors import ConfigError
from unisono.live_page import parts
from unisono.live_page.access import PageAccess
from unisono.live_page.hub import Hub
from unisono.live_page.reader import LEAST_PAUSE, Chore, RunReader
from unisono.live_page.server import PageServer

LARGE = 1 << 22  # more than the kernel holds for a browser that does not read
PATIENCE = 120.0
STREAM = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def serving(page):
    """The server of a page, and a connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        server = await asyncio.start_server(page.serve, sock=bound)
        async with server:
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            try:
                yield reader, writer
            finally:
                writer.close()
                await page.close()


async def message(reader):
    lines = [await reader.readline() for _ in range(3)]
    return json.loads(lines[1].removeprefix(b"data: "))


def test_what_changes_while_a_slow_browser_is_sent_something_is_not_lost():
    async def scene():
        page = PageServer(["run"], PageAccess(), 0)
        page.hub.update({"a": "x" * LARGE, "b": "old"})
        async with serving(page) as (reader, writer):
            writer.write(STREAM)
            await reader.readuntil(b"\r\n\r\n")
            # Nothing more is read: the server waits, in the middle of its message.
            while not any(w.transport.get_write_buffer_size() for w in page._open):
                await asyncio.sleep(0.01)
            page.hub.update({"b": "new"})
            page.changed()
            reader._limit = 2 * LARGE
            first = await message(reader)
            assert first["b"] == {"whole": "old"}
            second = await message(reader)
            assert list(second) == ["b"]

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_a_stream_sleeps_until_there_is_news():
    async def scene():
        page = PageServer(["run"], PageAccess(), 0)
        heard = page._news
        page.changed()
        assert heard.is_set()
        assert not page._news.is_set()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_the_reader_is_told_when_the_last_browser_leaves(tmp_path):
    async def scene():
        page = PageServer(["run"], PageAccess(), 0)
        page.reader = reader_of(page.hub, write_run(tmp_path / "run", rich_run()))
        async with serving(page) as (reader, writer):
            writer.write(STREAM)
            await reader.readuntil(b"\r\n\r\n")
            assert page.reader.watched
            writer.close()
            while page._browsers:
                await asyncio.sleep(0.01)
            assert not page.reader.watched

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def reader_of(hub, *paths):
    return RunReader(
        paths, [path.name for path in paths], hub, lambda: None, lambda error: None
    )


def shown(hub):
    """All parts of the page, as a browser has them that comes now."""
    browser = Browser()
    browser.hear(hub)
    return browser.parts


def test_each_run_has_its_own_parts_and_its_own_row(tmp_path):
    whole = rich_run()
    short = replace(whole, ranks={0: whole.ranks[0][:120]}, tests=(), found=())
    hub = Hub()
    paths = [write_run(tmp_path / name, run) for name, run in (("a", whole), ("b", short))]
    reader_of(hub, *paths)._round()
    page = shown(hub)
    assert "step 200" in page["0/head"]
    assert "step 120" in page["1/head"]
    rows = page["runs"].split("<tr>")[-2:]
    for row, name, step in zip(rows, "ab", ("200", "120"), strict=True):
        assert f">{name}</a>" in row
        assert f">{step}<" in row


def test_trouble_is_said_and_gone_when_it_is_over(tmp_path):
    hub = Hub()
    reader = reader_of(hub, write_run(tmp_path / "run", rich_run()))
    words = ConfigError("<b>bad</b>", where="run", fix="mend it")
    hub.update({"trouble": parts.trouble(words)})
    assert "&lt;b&gt;bad" in shown(hub)["trouble"]
    reader._round()
    assert shown(hub)["trouble"] == ""


def test_what_is_drawn_seldom_is_drawn_again(tmp_path):
    whole = rich_run()
    first = replace(whole, ranks={0: whole.ranks[0][:120]}, tests=(), validations=())
    run = write_run(tmp_path / "run", first)
    hub = Hub()
    reader = reader_of(hub, run)
    reader._round()
    before = shown(hub)
    add_events(run, whole.ranks[0][120:])
    for chore in reader._chores:
        chore.due = 0.0
    reader._round()
    after = shown(hub)
    for name in ("0/course", "0/answers"):
        assert after[name] != before[name], name


def test_what_costs_nothing_is_due_after_the_least_pause_and_what_costs_more_later():
    cheap = Chore(dict, 0.001)
    assert cheap.done(100.0, lambda: 1.0) == {}
    assert cheap.due == 100.0 + LEAST_PAUSE

    def hard():
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        return {}

    costly = Chore(hard, 0.001)
    costly.done(100.0, lambda: 1.0)
    assert costly.due >= 100.0 + 0.01 / 0.001


def test_of_a_long_run_everything_is_read_after_the_first_round(tmp_path, monkeypatch):
    from unisono.records import follow, skim

    monkeypatch.setattr(follow, "RECENT_BYTES", 2000)
    monkeypatch.setattr(follow, "TAIL_BYTES", 700)
    monkeypatch.setattr(skim, "SKIMMED", 4)
    reader = reader_of(Hub(), write_run(tmp_path / "run", rich_run()))
    assert reader._runs[0].is_sparse
    reader._round()
    assert not reader._runs[0].is_sparse
    assert reader._runs[0].course.updates == 200
