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


@pytest.mark.parametrize("keeping", ["4 bits", "diloco"])
def test_continued_on_two_machines_of_two_is_never_stopped_to_the_last_bit(
    two_by_two, corpus_home, tmp_path, keeping
):
    home, tables = link_corpus(corpus_home, tmp_path), {"sync": {**COMMON, **KEEPING[keeping]}}
    two_by_two.run(train_in_parts, str(home), "whole", [STEPS], tables)
    # Within the updates made together, within a round, at an evaluation, at a checkpoint.
    two_by_two.run(train_in_parts, str(home), "parts", [1, 5, 8, STEPS], tables)
    one, other = final_state(home / "whole"), final_state(home / "parts")
    one["exchange"], other["exchange"] = (
        exchange_state(home / "whole"),
        exchange_state(home / "parts"),
    )
    assert_identical(one, other)
    owners = {name.split("/")[0] for name in one["exchange"]}
    assert owners == {"4 bits": {"0", "2"}, "diloco": {"shared"}}[keeping]


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
