"""Sentences that wait for a worker, in the order in which they get one.

Requests take turns: one with a thousand sentences does not keep one with a single sentence
waiting. Sentences of the same request go together by length, which saves padding.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.serve.messages import RankedText

BATCH_SENTENCES = 32
BATCH_CHARACTERS = 8_000


@dataclass(eq=False)
class SentenceJob:
    """The sentences of one request, and their translations as they come."""

    model: int
    best: int
    sentences: Sequence[str]
    places: deque[int] = field(default_factory=deque)
    translations: dict[int, list[RankedText]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places.extend(
            sorted(range(len(self.sentences)), key=lambda n: len(self.sentences[n]))
        )

    @property
    def is_done(self) -> bool:
        return len(self.translations) == len(self.sentences)


Taken = list[tuple[SentenceJob, int]]


class SentenceQueue:
    """The jobs with sentences that no worker has taken yet."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, SentenceJob] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(job.places) for job in self._jobs.values())

    def add(self, job: SentenceJob) -> None:
        """Let a job wait after those that are there."""
        self._jobs[id(job)] = job

    def remove(self, job: SentenceJob) -> None:
        """Forget the sentences of a job that nobody wants any more."""
        job.places.clear()
        self._jobs.pop(id(job), None)

    def clear(self) -> list[SentenceJob]:
        """Forget all jobs and return them."""
        jobs = list(self._jobs.values())
        self._jobs.clear()
        return jobs

    def take(self, idle_workers: int = 1) -> Taken:
        """Return what one of so many idle workers translates next, for one model.

        The job that has waited longest decides which model; all that ask for the same take
        turns, a sentence each, as far as a batch and the share of one worker go.
        """
        if not self._jobs:
            return []
        first = next(iter(self._jobs.values()))
        alike = [
            job
            for job in self._jobs.values()
            if (job.model, job.best) == (first.model, first.best)
        ]
        waiting = sum(len(job.places) for job in alike)
        taken = _in_turns(alike, min(BATCH_SENTENCES, -(-waiting // max(1, idle_workers))))
        for job in dict.fromkeys(job for job, _ in taken):
            if job.places:
                self._jobs.move_to_end(id(job))
            else:
                del self._jobs[id(job)]
        return taken


def _in_turns(jobs: Sequence[SentenceJob], count: int) -> Taken:
    taken: Taken = []
    turns, characters = deque(jobs), 0
    while turns and len(taken) < count:
        job = turns.popleft()
        length = len(job.sentences[job.places[0]])
        if taken and characters + length > BATCH_CHARACTERS:
            break
        characters += length
        taken.append((job, job.places.popleft()))
        if job.places:
            turns.append(job)
    return taken
