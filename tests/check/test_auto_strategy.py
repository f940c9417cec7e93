"""`auto` takes the least drastic way that hides the exchange, says so, and stays with it."""

from pathlib import Path

import msgspec
import pytest

from support.tiny import tiny_settings
from train.test_resume import link_corpus
from unisono.check.auto_strategy import Choice, _still, _with, choose, chosen, settle
from unisono.comm.group import Solo
from unisono.corpus.reader import open_corpus
from unisono.cost_model.exchange import ring_bytes
from unisono.cost_model.forecast import forecast
from unisono.cost_model.probe_results import ProbeResults, Process, Sum, TrainingJob, Update

MB = 1_000_000


def found(rate, machines=2, latency=0.0):
    """Machines that compute 0.4 s an update and exchange 40 MB at `rate`."""
    job = TrainingJob(10 * MB, 4096, 150, updates=100_000, strategy="auto")
    one = Update(0.1, 0.2, 0.1)
    summed = Sum(4 * MB, ring_bytes(MB, machines) / rate, 0.0)
    processes = [
        Process(
            rank=rank,
            local_rank=0,
            host=f"node{rank}",
            device="cuda",
            threads=1,
            cores=1,
            memory_bytes=1,
            peak_bytes=0,
            free_disk_bytes=1,
            updates=(one,) * 4,
            sums=(summed,) * 4,
        )
        for rank in range(machines)
    ]
    return forecast(ProbeResults(job=job, processes=tuple(processes), latency=latency))


@pytest.mark.parametrize(
    ("rate", "strategy", "bits"),
    [(10_000 * MB, "ddp", 32), (150 * MB, "compressed", 16), (40 * MB, "compressed", 4)],
)
def test_the_least_drastic_way_that_hides_the_exchange(rate, strategy, bits):
    choice = choose(found(rate))
    assert (choice.strategy, choice.bits, choice.every) == (strategy, bits, 1)
    assert "waiting for the network" in choice.reason
    assert ("exact" in choice.reason.split(";")[1]) == (strategy == "ddp")


def test_where_no_packed_gradients_hide_the_link_machines_synchronise_rarely_and_say_so():
    choice = choose(found(1 * MB))
    assert (choice.strategy, choice.bits) == ("diloco", 4)
    assert 12 <= choice.every <= 20
    assert "with 4-bit ones, 0% like this" in choice.reason
    assert f"synchronise their weights once in {choice.every} updates" in choice.reason
    assert "takes another course than with exact gradients" in choice.reason


@pytest.mark.parametrize(
    ("machines", "latency", "phases", "kept"),
    [(2, 0.0, 1, 0), (2, 0.2, 1, 0), (4, 0.0, 2, 0), (4, 0.2, 1, 1)],
)
def test_one_or_two_phases_by_what_is_cheaper_with_these_machines_and_this_latency(
    machines, latency, phases, kept
):
    exchange = found(40 * MB, machines, latency).advised.exchange
    assert exchange.bits < 32
    assert exchange.phases == phases
    choice = choose(found(40 * MB, machines, latency))
    assert choice.phases == kept
    assert ("two phases" in chosen(choice).message) == (phases == 2)


def test_the_phases_that_were_chosen_or_set_are_those_of_the_run(tmp_path):
    auto = tiny_settings(tmp_path, sync={"strategy": "auto"})
    assert _with(auto, Choice("compressed", 4, "", phases=1)).sync.phases == 1
    mine = tiny_settings(tmp_path, sync={"strategy": "auto", "phases": 2})
    assert _with(mine, Choice("compressed", 4, "", phases=1)).sync.phases == 2


def test_other_machines_than_chosen_for_sum_in_the_phases_that_are_usual_for_them():
    before = Choice("compressed", 4, "why", machines=4, phases=1)
    assert _still(before, 4) == before
    assert _still(before, 16).phases == 0
    assert "two phases" in chosen(_still(before, 16)).message
    assert "two phases" in chosen(_still(Choice("compressed", 4, "why", machines=2), 3)).message


def test_what_was_chosen_is_what_is_trained_with(tmp_path):
    auto = tiny_settings(tmp_path, sync={"strategy": "auto", "outer_momentum": 0.3})
    sync = _with(auto, Choice("diloco", 4, "", every=7, bucket_mb=4.0)).sync
    assert (sync.strategy, sync.bits, sync.local_steps) == ("diloco", 4, 7)
    assert (sync.warmup_steps, sync.outer_momentum, sync.bucket_mb) == (0, 0.3, 4.0)
    mine = tiny_settings(tmp_path, sync={"strategy": "auto", "bucket_mb": 3.0})
    sync = _with(mine, Choice("ddp", 32, "", bucket_mb=4.0)).sync
    assert (sync.strategy, sync.bits, sync.bucket_mb) == ("ddp", 8, 3.0)


def test_what_an_older_version_chose_is_read():
    old = b'{"strategy":"compressed","bits":8,"reason":"r","format":1}'
    choice = msgspec.json.decode(old, type=Choice)
    assert (choice.every, choice.bucket_mb) == (1, 25.0)


def test_what_was_chosen_is_said_in_a_sentence():
    said = chosen(Choice("diloco", 4, "why", every=7, bucket_mb=4.0), step=0).message
    assert said == "diloco synchronises weights in 4 bits, once in 7 updates: why"
    said = chosen(Choice("diloco", 4, "why"), step=0).message
    assert said == "diloco synchronises weights in 4 bits, after every update: why"
    said = chosen(Choice("compressed", 8, "why", bucket_mb=4.0), step=0).message
    assert said == "compressed exchanges gradients in 8 bits, 4 MB at a time: why"
    assert chosen(Choice("ddp", 32, "why", bucket_mb=2.0), step=0).message == (
        "ddp exchanges gradients, 2 MB at a time: why"
    )


def settled(comm, home):
    """Return the strategy a session of the run trains with, what is said of it, and when."""
    told, settings = [], tiny_settings(Path(home), sync={"strategy": "auto"})
    Path(settings.run).mkdir(exist_ok=True)
    corpus = open_corpus(Path(settings.corpus.directory))
    found, choice = settle(comm, settings, corpus, told.append, seconds=0.2)
    return found.sync.strategy, choice, told


@pytest.mark.ranks
def test_a_run_stays_with_what_it_chose_and_says_where_that_does_not_fit(
    two_by_two, corpus_home, tmp_path
):
    home = link_corpus(corpus_home, tmp_path)
    record = home / "run" / "exchange.json"
    assert settled(Solo(), home) == ("ddp", None, [])
    first = two_by_two.run(settled, str(home))
    strategy, choice, told = first[0]
    assert choice.machines == 2
    assert any("measuring" in text for text in told)
    assert msgspec.json.decode(record.read_bytes(), type=Choice) == choice
    assert all(one[:2] == (strategy, choice) for one in first)
    # Another session measures nothing.
    assert two_by_two.run(settled, str(home)) == [(strategy, choice, [])] * 4

    rare = msgspec.json.encode(Choice("diloco", 4, "why", every=7, machines=8))
    record.write_bytes(rare)
    for strategy, choice, _ in two_by_two.run(settled, str(home)):
        assert (strategy, choice.every) == ("diloco", 7)
        assert choice.reason.startswith("why; chosen for 8 machines, and kept on 2")
    strategy, choice, _ = settled(Solo(), home)
    assert (strategy, choice.strategy) == ("ddp", "ddp")
    assert "On several machines the run continues with diloco in 4 bits" in choice.reason
    assert record.read_bytes() == rare
