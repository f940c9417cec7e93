"""What a run is refused for, where only the corpus tells."""

from pathlib import Path

import pytest

from support.tiny import tiny_settings
from unisono.comm.group import Solo
from unisono.comm.protocol import World
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.train.build import stream_of
from unisono.train.preconditions import check_preconditions, updates_of


class Two(Solo):
    """One of two, which hears only itself."""

    def __init__(self):
        super().__init__(World(size=2))


def possible(home, strategy, warmup_steps, **train):
    settings = tiny_settings(
        home,
        sync={"strategy": strategy, "warmup_steps": warmup_steps},
        train={"max_steps": 0, **train},
    )
    corpus = open_corpus(Path(settings.corpus.directory))
    check_preconditions(Two(), settings, corpus)
    return updates_of(settings, stream_of(settings, corpus, Solo()))


@pytest.mark.parametrize("strategy", ["powersgd", "diloco"])
def test_a_strategy_that_would_begin_after_the_last_epoch_is_refused(corpus_home, strategy):
    updates = possible(corpus_home, "ddp", 0, max_epochs=2)
    assert possible(corpus_home, strategy, updates - 1, max_epochs=2) == updates
    with pytest.raises(ConfigError, match=f"`{strategy}` would never begin.* ends after"):
        possible(corpus_home, strategy, updates, max_epochs=2)
    with pytest.raises(ConfigError, match="would never begin"):  # whichever limit comes first
        possible(corpus_home, strategy, updates, max_epochs=2, max_steps=9 * updates)


def test_nothing_is_known_of_a_run_that_only_time_ends(corpus_home):
    assert possible(corpus_home, "powersgd", 10**6, max_time="1 h") == 0
