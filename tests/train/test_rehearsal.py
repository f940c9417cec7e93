"""A run before the run: refused for the same reasons, and the same on every process."""

import pytest

from support.tiny import tiny_settings
from unisono.errors import ConfigError
from unisono.train.rehearsal import run_rehearsal


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sync": {"strategy": "diloco"}}, "diloco with one process is a no-op"),
        ({"corpus": {"drop_overlap": True}}, "the corpus was prepared with drop_overlap"),
    ],
)
def test_what_training_would_refuse_is_refused_before_anything_is_measured(
    corpus_home, tables, message
):
    told = []
    with pytest.raises(ConfigError, match=message):
        run_rehearsal(tiny_settings(corpus_home, **tables), 0.1, told.append)
    assert not any("measuring" in text for text in told)
