"""Sentences that wait for a worker, in the order in which they get one.

The request that has been passed over for longest comes first, and the batch is filled with
sentences of about the same length, whichever request they belong to: that saves padding, and a
sentence that ends late keeps few others. Who got something goes to the end of the queue, so a
request with a thousand sentences does not keep one with a single sentence waiting.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from operator import itemgetter

from unisono.serve.messages import RankedText

BATCH_SENTENCES = 64
BATCH_CHARACTERS = 8_000
NEAR_CHARACTERS = 10  # lengths that differ by less count as the same
MOST_COMPARED = 1_000  # looking at everything that waits would take longer than it saves


@dataclass(eq=False)
class SentenceJob:
    """The sentences of one request, and their translations as they come."""

    model: int
    best: int
    sentences: Sequence[str]
    places: list[int] = field(default_factory=list)  # not taken yet, the shortest first
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

    def take(self, most: int = BATCH_SENTENCES) -> Taken:
        """Return at most so many sentences for a worker to translate next, for one model.

        The job that has waited longest decides which model, and about how long sentences are:
        as its longest one. All that ask for the same model add theirs that are nearest in
        length.
        """
        if not self._jobs:
            return []
        first = next(iter(self._jobs.values()))
        alike = [
            job
            for job in self._jobs.values()
            if (job.model, job.best) == (first.model, first.best)
        ]
        taken = _nearest(alike, first, most)
        chosen: dict[SentenceJob, set[int]] = {}
        for job, place in taken:
            chosen.setdefault(job, set()).add(place)
        for job, places in chosen.items():
            job.places = [place for place in job.places if place not in places]
            if job.places:
                self._jobs.move_to_end(id(job))
            else:
                del self._jobs[id(job)]
        return taken


def _nearest(jobs: Sequence[SentenceJob], first: SentenceJob, count: int) -> Taken:
    """Return the longest sentence of `first` and those of all `jobs` nearest to it in length.

    Of those that are about as near, the jobs take turns.
    """
    start = (first, first.places[-1])
    wanted = _length(*start)
    others = (
        (abs(_length(job, place) - wanted) // NEAR_CHARACTERS, turn, job, place)
        for job in jobs
        for turn, place in enumerate(job.places)
        if (job, place) != start
    )
    taken, characters = [start], wanted
    seen = islice(others, MOST_COMPARED)
    for _, _, job, place in nsmallest(count - 1, seen, key=itemgetter(0, 1)):
        characters += _length(job, place)
        if characters > BATCH_CHARACTERS:
            break
        taken.append((job, place))
    return taken


def _length(job: SentenceJob, place: int) -> int:
    return len(job.sentences[place])
