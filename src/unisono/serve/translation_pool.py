"""The workers of one set of models, and the sentences that wait for them."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from unisono.serve.sentence_queue import SentenceJob, SentenceQueue, Taken

PROGRAMS = {
    "unisono": "unisono.serve.worker",
    "ctranslate2": "unisono.serve.export_worker",
}
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

    async def ask(self, batch: SentenceBatch) -> WorkerReply:
        self.writer.write(encoded(batch))
        await self.writer.drain()
        return await self.receive()


class TranslationPool:
    """Processes that translate with one set of models, whatever is served after them."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        links: Sequence[_Link],
        observe: Callable[[int], None],
    ) -> None:
        self._process, self._links, self._observe = process, links, observe
        self._queue, self._arrived = SentenceQueue(), asyncio.Event()
        self._futures: dict[SentenceJob, asyncio.Future[None]] = {}
        self._idle, self._is_crowded = 0, False
        self._lost_workers = 0
        self._tasks = [asyncio.create_task(self._work(link)) for link in links]

    @classmethod
    async def start(
        cls,
        engine: str,
        models: Sequence[Path],
        workers: int,
        observe: Callable[[int], None] = lambda _: None,
    ) -> Self:
        """Start the workers and wait until all of them are ready."""
        pairs = [socket.socketpair() for _ in range(workers)]
        theirs = [pair[1].fileno() for pair in pairs]
        order = {"models": [str(path.resolve()) for path in models], "sockets": theirs}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAMS[engine], msgspec.json.encode(order).decode()),
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
        return cls(process, links, observe)

    @property
    def waiting_sentences(self) -> int:
        return len(self._queue)

    @property
    def has_lost_a_worker(self) -> bool:
        return self._lost_workers > 0 or any(link.reader.at_eof() for link in self._links)

    async def translate(
        self, model: int, sentences: Sequence[str], best: int = 1
    ) -> list[list[RankedText]]:
        """Return the translations of each sentence, best first.

        Whoever cancels this takes back the sentences that no worker has begun.
        """
        if not sentences:
            return []
        if not self._tasks:
            raise TranslationFailedError("the workers have ended")
        job = SentenceJob(model, best, sentences)
        self._futures[job] = asyncio.get_running_loop().create_future()
        self._queue.add(job)
        self._arrived.set()
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
        await _end(self._process, self._links)

    async def _work(self, link: _Link) -> None:
        """Give one worker what waits, again and again."""
        while True:
            taken = await self._next(link)
            if not taken:
                self._lose()
                return
            first = taken[0][0]
            sentences = [job.sentences[place] for job, place in taken]
            try:
                reply = await link.ask(SentenceBatch(first.model, first.best, sentences))
            except (OSError, EOFError, msgspec.MsgspecError) as error:
                self._fail(taken, f"a worker died: {error}")
                self._lose()
                return
            if reply.error:
                self._fail(taken, reply.error)
            else:
                self._settle(taken, reply.translations)

    async def _next(self, link: _Link) -> Taken:
        """Wait for sentences and take some of them; none for a worker that has died."""
        self._idle += 1
        taken: Taken = []
        while not taken:
            await self._arrived.wait()
            if self._is_crowded:
                await asyncio.sleep(GATHER_SECONDS)
            if link.reader.at_eof():
                break
            taken = self._queue.take(self._idle)
            if not taken:
                self._arrived.clear()
        self._idle -= 1
        if taken:
            self._is_crowded = len({id(job) for job, _ in taken}) > 1
            self._observe(len(taken))
        return taken

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

    def _lose(self) -> None:
        """Remember that a worker is gone; without any other, nobody waits for nothing."""
        self._lost_workers += 1
        current = asyncio.current_task()
        if all(task.done() or task is current for task in self._tasks):
            self._tasks = []
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
