"""The processes that translate, for a server that has no torch.

    python -m unisono.serve.worker JSON

One process loads the models, then forks: all workers share the memory of the weights, and each
has one thread, one core and one socket to the server. A worker ends when its socket closes.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import torch
from torch import nn

from unisono.bundle.reader import ensemble, open_bundle
from unisono.errors import UnisonoError
from unisono.parent_process import die_with_launcher, die_with_parent
from unisono.serve.messages import BatchReader, RankedText, WorkerReply, encoded
from unisono.translate.line_stream import LineStream
from unisono.translate.translator import Translation, Translator


class WorkerOrder(msgspec.Struct, frozen=True):
    """Which models to load, the sockets of the workers, the number type of products."""

    models: list[str]
    sockets: list[int]
    precision: Literal["auto", "fp32", "bf16"] = "fp32"


class LineFlow(Protocol):
    """Lines that are translated together, as `LineStream` does it."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def tickets(self) -> list[int]: ...

    def add(self, tickets: Sequence[int], lines: Sequence[str]) -> None: ...

    def step(self) -> list[tuple[int, Translation]]: ...


Load = Callable[[Sequence[str]], list[Translator]]
NewStream = Callable[[Translator], LineFlow]


def run_workers(
    order: WorkerOrder, load: Load, new_stream: NewStream, *, load_before_fork: bool
) -> None:
    """Load the models and translate until the server closes the sockets."""
    die_with_launcher()
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when to stop
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    connections = [socket.socket(fileno=number) for number in order.sockets]
    # A server that has heard of the error from another worker, or died, listens no more.
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            loaded = load(order.models) if load_before_fork else []
        except UnisonoError as error:
            connections[0].sendall(encoded(failure(error)))
            return
        mine = _fork(connections)
        for connection in connections:
            if connection is not mine:
                connection.close()
        try:
            translators = loaded or load(order.models)
            for translator in translators:
                translator.translate(["."])  # the first translation takes longer
        except UnisonoError as error:
            mine.sendall(encoded(failure(error)))
        else:
            serve(mine, translators, new_stream)


def serve(
    connection: socket.socket, translators: Sequence[Translator], new_stream: NewStream
) -> None:
    """Say that this worker is ready, then translate what comes until the connection ends.

    Sentences join those under way. Each model and each number of alternatives is a search of
    its own; they take turns.
    """
    connection.sendall(encoded(WorkerReply()))
    reader = BatchReader(connection)
    streams: dict[tuple[int, int], LineFlow] = {}
    while (batches := reader.read(wait=not streams)) is not None:
        for batch in batches:
            key = (batch.model, batch.best)
            if key not in streams:
                streams[key] = new_stream(_with_best(translators[batch.model], batch.best))
            streams[key].add(batch.tickets, batch.sentences)
        for key, stream in list(streams.items()):
            reply = _stepped(stream)
            if reply.tickets:
                connection.sendall(encoded(reply))
            if stream.is_empty or reply.error:
                del streams[key]


def failure(error: UnisonoError) -> WorkerReply:
    """Return the reply that carries an error to the server."""
    return WorkerReply(
        error=error.what, where=error.where, fix=error.fix, exit_code=error.exit_code
    )


def _stepped(stream: LineFlow) -> WorkerReply:
    """Go on by one step; if that fails, all that are under way together fail."""
    try:
        done = stream.step()
    except (RuntimeError, MemoryError) as error:
        return WorkerReply(stream.tickets, error=f"{type(error).__name__}: {error}")
    return WorkerReply([ticket for ticket, _ in done], [_ranked(line) for _, line in done])


def _ranked(line: Translation) -> list[RankedText]:
    return [RankedText(one.text, one.confidence) for one in line.alternatives]


@lru_cache(maxsize=64)
def _with_best(translator: Translator, best: int) -> Translator:
    beam = max(translator.decoding.beam, best)
    decoding = msgspec.structs.replace(translator.decoding, beam=beam)
    return replace(translator, decoding=decoding, best=best)


def load_bundles(
    paths: Sequence[str], precision: Literal["auto", "fp32", "bf16"]
) -> list[Translator]:
    """Open each bundle."""
    translators = [ensemble([open_bundle(Path(path))], precision=precision) for path in paths]
    for translator in translators:
        for model in translator.models:
            _own_memory(model)
    return translators


def _own_memory(model: nn.Module) -> None:
    """Copy the weights: they are mapped from a file that somebody may overwrite."""
    for weight in model.parameters():
        weight.data = weight.data.clone()


def _fork(connections: Sequence[socket.socket]) -> socket.socket:
    """Start a process for each connection but the first; return the one of this process."""
    for connection in connections[1:]:
        if os.fork() == 0:
            die_with_parent()
            return connection
    return connections[0]


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=WorkerOrder)
    load = partial(load_bundles, precision=given.precision)
    run_workers(given, load, LineStream, load_before_fork=True)
