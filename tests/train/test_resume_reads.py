"""A run that is continued reads what comes next and nothing of what came before."""

import pytest

from support.tiny import tiny_settings
from unisono.batching.plan import plan_epoch
from unisono.batching.stream import PREFETCHED_UPDATES, Stream
from unisono.corpus.reader import Split, open_corpus


class Watched(Split):
    """A split that remembers which of its pairs were read."""

    def __init__(self, corpus):
        super().__init__(corpus.path, "train", corpus.manifest)
        self.read = []

    def pairs(self, indices):
        self.read += [int(index) for index in indices]
        return super().pairs(indices)


def pairs_of(split, budget, epoch, updates):
    plan = plan_epoch(split.source_lengths, split.target_lengths, budget, seed=5, epoch=epoch)
    chosen = [batch.indices.tolist() for i in updates for batch in plan[i].micro_batches]
    return [index for batch in chosen for index in batch]


@pytest.mark.parametrize(("epoch", "position"), [(1, 0), (1, 5), (40, 3), (1000, 7)])
def test_nothing_before_the_position_is_read(corpus_home, epoch, position):
    budget = tiny_settings(corpus_home).batching
    split = Watched(open_corpus(corpus_home / "corpus"))
    stream = Stream(split, budget, 5)
    assert split.read == []
    works = stream.from_position(epoch, position)
    assert next(works).position == position
    works.close()
    updates = stream.updates_in(epoch)
    expected = pairs_of(split, budget, epoch, range(position, updates))
    for later in range(epoch + 1, epoch + 3):  # what was prepared ahead
        expected += pairs_of(split, budget, later, range(stream.updates_in(later)))
    assert split.read == expected[: len(split.read)]
    most = PREFETCHED_UPDATES + 3
    assert len(split.read) <= most * max(
        len(pairs_of(split, budget, epoch, [update])) for update in range(updates)
    )
