"""The workers of one set of models, and the sentences that wait for them."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from unisono.errors import RunError, UnisonoError
from unisono.parent_process import parent_variables
from unisono.serve.messages import (
    LENGTH_BYTES,
    LONGEST_MESSAGE,
    RankedText,
    SentenceBatch,
    WorkerReply,
    encoded,
)
from unisono.serve.sentence_queue import BATCH_SENTENCES, SentenceJob, SentenceQueue, Taken
from unisono.serve.settings import ServeWorkers

PROGRAMS = {
    "unisono": "unisono.serve.worker",
    "ctranslate2": "unisono.serve.export_worker",
}
JOINING = {"unisono"}
# Answered clients ask again at about the same time: so long a worker waits for the others.
GATHER_SECONDS = 0.005
END_SECONDS = 10.0


class TranslationFailedError(Exception):
    """A worker failed or died over a sentence."""


@dataclass(frozen=True)
class _Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> WorkerReply:
        head = await self.reader.readexactly(LENGTH_BYTES)
        length = int.from_bytes(head, "big")
        body = await self.reader.readexactly(min(length, LONGEST_MESSAGE))
        return msgspec.msgpack.decode(body, type=WorkerReply)


@dataclass(eq=False)
class _Worker:
    """A worker and the sentences that it has not replied yet, by their tickets."""

    link: _Link
    under_way: dict[int, tuple[SentenceJob, int]] = field(default_factory=dict)
    is_lost: bool = False


class TranslationPool:
    """Processes that translate with one set of models, whatever is served after them.

    Our own workers get sentences at any time: each joins those under way. Those of other
    engines get the next ones when they have replied all.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        links: Sequence[_Link],
        observe: Callable[[int], None],
        *,
        joins: bool,
    ) -> None:
        self._process, self._observe, self._joins = process, observe, joins
        self._workers = [_Worker(link) for link in links]
        self._queue, self._next_ticket = SentenceQueue(), 0
        self._futures: dict[SentenceJob, asyncio.Future[None]] = {}
        self._is_crowded = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = [asyncio.create_task(self._listen(worker)) for worker in self._workers]

    @classmethod
    async def start(
        cls,
        workers: ServeWorkers,
        models: Sequence[Path],
        observe: Callable[[int], None] = lambda _: None,
    ) -> Self:
        """Start the workers and wait until all of them are ready."""
        pairs = [socket.socketpair() for _ in range(workers.count)]
        theirs = [pair[1].fileno() for pair in pairs]
        order = {
            "models": [str(path.resolve()) for path in models],
            "sockets": theirs,
            "precision": workers.precision,
        }
        program = PROGRAMS[workers.engine]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", program, msgspec.json.encode(order).decode()),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=theirs,
            start_new_session=True,  # Ctrl-C is for the server
            env={**os.environ, **parent_variables()},
        )
        for _, their in pairs:
            their.close()
        links = [_Link(*await asyncio.open_connection(sock=ours)) for ours, _ in pairs]
        try:
            await asyncio.gather(*map(_ready, links))
        except BaseException:
            await _end(process, links)
            raise
        return cls(process, links, observe, joins=workers.engine in JOINING)

    @property
    def waiting_sentences(self) -> int:
        return len(self._queue)

    @property
    def has_lost_a_worker(self) -> bool:
        return any(worker.is_lost for worker in self._workers)

    async def translate(
        self, model: int, sentences: Sequence[str], best: int = 1
    ) -> list[list[RankedText]]:
        """Return the translations of each sentence, best first.

        Whoever cancels this takes back the sentences that no worker has begun.
        """
        if not sentences:
            return []
        if not self._tasks or all(worker.is_lost for worker in self._workers):
            raise TranslationFailedError("the workers have ended")
        job = SentenceJob(model, best, sentences)
        self._futures[job] = asyncio.get_running_loop().create_future()
        self._queue.add(job)
        self._look()
        try:
            await self._futures[job]
        finally:
            self._queue.remove(job)
            del self._futures[job]
        return [job.translations[place] for place in range(len(sentences))]

    async def close(self) -> None:
        """Finish what was asked for, then end the workers."""
        while self._futures:
            await asyncio.wait(list(self._futures.values()))
            await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await _end(self._process, [worker.link for worker in self._workers])

    async def _listen(self, worker: _Worker) -> None:
        """Take the replies of a worker until it dies."""
        try:
            while True:
                reply = await worker.link.receive()
                taken = [worker.under_way.pop(ticket) for ticket in reply.tickets]
                if reply.error:
                    self._fail(taken, reply.error)
                else:
                    self._settle(taken, reply.translations)
                self._look()
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            self._lose(worker, f"a worker died: {error}")

    def _look(self) -> None:
        """Give the workers what waits: at once, or when those who ask again have done so."""
        if self._joins or not self._is_crowded:
            self._give()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(GATHER_SECONDS, self._give)

    def _give(self) -> None:
        """Give each worker its share of what waits, the one with the least first."""
        self._timer = None
        while len(self._queue):
            free = [
                one
                for one in self._workers
                if not one.is_lost and (self._joins or not one.under_way)
            ]
            if not free:
                return
            worker = min(free, key=lambda one: len(one.under_way))
            together = len(self._queue) + sum(len(one.under_way) for one in free)
            share = min(BATCH_SENTENCES, -(-together // len(free)))
            room = share - len(worker.under_way)
            if room <= 0:
                return
            self._send(worker, self._queue.take(room))

    def _send(self, worker: _Worker, taken: Taken) -> None:
        tickets = list(range(self._next_ticket, self._next_ticket + len(taken)))
        self._next_ticket += len(taken)
        worker.under_way.update(zip(tickets, taken, strict=True))
        self._is_crowded = len({id(job) for job, _ in worker.under_way.values()}) > 1
        self._observe(len(worker.under_way))
        first, sentences = taken[0][0], [job.sentences[place] for job, place in taken]
        batch = SentenceBatch(first.model, first.best, tickets, sentences)
        worker.link.writer.write(encoded(batch))

    def _settle(self, taken: Taken, translations: Sequence[list[RankedText]]) -> None:
        for (job, place), found in zip(taken, translations, strict=True):
            job.translations[place] = found
            future = self._futures.get(job)
            if job.is_done and future and not future.done():
                future.set_result(None)

    def _fail(self, taken: Taken, why: str) -> None:
        for job, _ in taken:
            future = self._futures.get(job)
            if future and not future.done():
                future.set_exception(TranslationFailedError(why))

    def _lose(self, worker: _Worker, why: str) -> None:
        """Remember that a worker is gone; without any other, nobody waits for nothing."""
        worker.is_lost = True
        self._fail(list(worker.under_way.values()), why)
        worker.under_way.clear()
        if all(one.is_lost for one in self._workers):
            for job in self._queue.clear():
                self._fail([(job, 0)], "all workers died")


async def _ready(link: _Link) -> None:
    try:
        reply = await link.receive()
    except (OSError, EOFError) as error:
        raise RunError(
            "a worker ended before it was ready",
            where="unisono serve",
            fix="look for its error above; if there is none, memory may be short",
        ) from error
    if reply.error:
        raise UnisonoError(
            reply.error, where=reply.where, fix=reply.fix, exit_code=reply.exit_code
        )


async def _end(process: asyncio.subprocess.Process, links: Sequence[_Link]) -> None:
    for link in links:
        link.writer.close()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
