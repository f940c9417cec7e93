"""The record server: it runs on a machine and gives away the records of a run there. No torch.

    python -m unisono.launch.stream.server

It answers requests on standard input (`messages`) and ends with it. It reads and writes files
of one run directory whose names travel, and no others.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from unisono.errors import DataError, UnisonoError
from unisono.launch.stream.checkpoint_files import complete_checkpoints, read_checkpoint
from unisono.launch.stream.detached import signal_wrapper
from unisono.launch.stream.messages import (
    LONGEST_STREAM_MESSAGE,
    MOST_PAYLOAD_BYTES,
    AppendRecord,
    AskMark,
    AskOffsets,
    Greet,
    Greeted,
    ListRecords,
    Offsets,
    PutMark,
    ReadCheckpoint,
    ReadRecord,
    ReadWhole,
    RecordBytes,
    RecordEntry,
    RecordList,
    Refused,
    Renew,
    SignalRun,
    StreamReply,
    StreamRequest,
    YesOrNo,
)
from unisono.launch.stream.record_names import MOST_NAMES, check_name
from unisono.launch.stream.record_store import RecordStore
from unisono.records.layout import RunDirectory
from unisono.small_files import read_bytes

Response = tuple[StreamReply, bytes]
_TOKEN = re.compile(r"[0-9a-f]{32}")


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """YesOrNo requests until there are no more."""
    store: RecordStore | None = None
    for request, payload in _requests(requests):
        try:
            if isinstance(request, Greet):
                store = _open(request)
                has_run = RunDirectory(store.run).config.is_file()
                greeted = Greeted(request.token, store.identity, has_run)
                response: Response = greeted, b""
            elif store is None:
                response = Refused("no run directory was named"), b""
            else:
                response = respond(store, request, payload)
        except UnisonoError as error:
            response = Refused(error.what, error.where, error.fix), b""
        except OSError as error:
            response = Refused(str(error)), b""
        replies.write(msgspec.json.encode(response[0]) + b"\n" + response[1])
        replies.flush()


def _requests(requests: BinaryIO) -> Iterator[tuple[StreamRequest, bytes]]:
    while line := requests.readline(LONGEST_STREAM_MESSAGE):
        request = msgspec.json.decode(line, type=StreamRequest)
        length = request.length if isinstance(request, AppendRecord) else 0
        if length > MOST_PAYLOAD_BYTES:
            return
        payload = requests.read(length)
        if len(payload) < length:
            return
        yield request, payload


def _open(request: Greet) -> RecordStore:
    run = Path(request.run)
    if not request.create and not run.is_dir():
        raise DataError(
            f"there is no run directory {request.run}",
            where=os.uname().nodename,
            fix="name the directory in which it was launched with --directory",
        )
    return RecordStore(run)


def respond(store: RecordStore, request: StreamRequest, payload: bytes) -> Response:
    """YesOrNo one request about the directory of `store`."""
    match request:
        case ListRecords():
            entries = [RecordEntry(*entry) for entry in store.entries()]
            known = complete_checkpoints(store.run) if request.checkpoints else []
            return RecordList(entries[:MOST_NAMES], known), b""
        case ReadRecord():
            start, data = store.read_own(request.name, request.offset)
            return RecordBytes(start, len(data)), data
        case ReadWhole():
            check_name(request.name, growing=False)
            path = store.run / request.name
            changed = path.stat().st_mtime_ns  # before: what changes meanwhile is read again
            data = read_bytes(path, MOST_PAYLOAD_BYTES)
            return RecordBytes(0, len(data), changed), data
        case ReadCheckpoint():
            data = read_checkpoint(store.run, request.checkpoint, request.file, request.offset)
            return RecordBytes(request.offset, len(data)), data
        case AskOffsets():
            store.lock()
            return Offsets(store.offsets(request.source)), b""
        case AppendRecord():
            store.lock()
            store.append(request.source, request.name, request.start, payload)
            return YesOrNo(yes=True), b""
        case _:
            return YesOrNo(yes=_act(store, request)), b""


def _act(store: RecordStore, request: StreamRequest) -> bool:
    match request:
        case PutMark():
            _mark(store, request.token).touch()
            return True
        case AskMark():
            return _mark(store, request.token).exists()
        case Renew():
            store.renew()
            return True
        case SignalRun():
            return signal_wrapper(store.run, request.node, kill=request.kill)
        case _:
            return False


def _mark(store: RecordStore, token: str) -> Path:
    if _TOKEN.fullmatch(token) is None:
        raise DataError(f"{token[:100]!r} is not a token")
    return mark_of(store.run, token)


def mark_of(run: Path, token: str) -> Path:
    """Return the file by which two machines find out whether they share a directory."""
    return RunDirectory(run).stream / f".tmp-mark-{token}"


if __name__ == "__main__":
    with suppress(BrokenPipeError, msgspec.DecodeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)
