"""Runs of two processes on each of two machines."""

import shutil
from pathlib import Path

import pytest
from test_inexact_runs import COMMON, KEEPING, exchange_state
from test_resume import STEPS, assert_identical, final_state, link_corpus, train_in_parts

from support.tiny import tiny_settings
from unisono.records.events import Warned
from unisono.train.job import run_with

pytestmark = pytest.mark.ranks


QUIETLY = {"validation": {"every_steps": 5, "bleu": False, "samples": 0}}


def tables_of(keeping, **more):
    return {"sync": {**COMMON, "bucket_mb": 0.02, **KEEPING[keeping], **more}, **QUIETLY}


def states(home):
    """Return all that both runs saved at their end, and who owns what of the exchange."""
    found = []
    for run in ("whole", "parts"):
        found.append({**final_state(home / run), "exchange": exchange_state(home / run)})
    return *found, {name.split("/")[0] for name in found[0]["exchange"]}


def test_packed_gradients_continued_are_never_stopped_to_the_last_bit(
    two_by_two, corpus_home, tmp_path
):
    home, tables = link_corpus(corpus_home, tmp_path), tables_of("4 bits")
    two_by_two.run(train_in_parts, str(home), "whole", [STEPS], tables)
    two_by_two.run(train_in_parts, str(home), "parts", [6, STEPS], tables)
    whole, parts, owners = states(home)
    assert_identical(whole, parts)
    assert owners == {"0", "1", "2", "3"}
    # The first of a machine keeps what rounding dropped; what was late is each process's own.
    others = {name for name in whole["exchange"] if name[0] in "13"}
    assert others == {f"{rank}/embeddings.shared/gradient_left_over" for rank in (1, 3)}


def test_local_steps_continued_are_never_stopped_to_the_last_bit(
    two_by_two, corpus_home, tmp_path
):
    home, tables = link_corpus(corpus_home, tmp_path), tables_of("diloco", warmup_steps=5)
    two_by_two.run(train_in_parts, str(home), "whole", [STEPS], tables)
    two_by_two.run(train_in_parts, str(home), "parts", [6], tables)
    # As if killed while updates were still made together: back to the fourth.
    for step in (5, 6):
        shutil.rmtree(home / "parts" / "checkpoints" / f"step-{step:07d}")
    assert {name.split("/")[0] for name in exchange_state(home / "parts", 4)} == {"0", "2"}
    two_by_two.run(train_in_parts, str(home), "parts", [STEPS], tables)
    whole, parts, owners = states(home)
    assert_identical(whole, parts)
    assert owners == {"shared"}


def local_warnings(comm, home):
    settings = tiny_settings(
        Path(home), "said", sync={"strategy": "compressed"}, train={"max_steps": 2}
    )
    return [event.message for event in run_with(comm, settings) if isinstance(event, Warned)]


@pytest.mark.parametrize("ranks", [2], indirect=True)
def test_on_one_machine_it_is_said_that_there_is_no_network_to_spare(
    ranks, two_by_two, corpus_home, tmp_path
):
    home = link_corpus(corpus_home, tmp_path)
    for said in ranks.run(local_warnings, str(home)):
        assert any('strategy "compressed" has no network to spare' in one for one in said)
    shutil.rmtree(home / "said")
    for said in two_by_two.run(local_warnings, str(home)):
        assert not any("no network to spare" in one for one in said)
