"""What memory has to hold besides what the probes saw."""

import msgspec
import pytest

from cost_model.measuring import JOB, MB, configured, process
from unisono.cost_model.forecast import forecast
from unisono.cost_model.notes import exchange_memory, memory_of
from unisono.cost_model.probe_results import ProbeResults
from unisono.cost_model.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("strategy", "bytes_a_weight"),
    [("all_reduce", 8), ("ddp", 4), ("compressed", 12), ("powersgd", 12), ("diloco", 12)],
)
def test_every_exchange_keeps_something_of_each_weight(strategy, bytes_a_weight):
    assert exchange_memory(MB, strategy, 2) == bytes_a_weight * MB
    assert exchange_memory(MB, strategy, 1) == 0


def test_every_strategy_is_known_and_only_diloco_has_an_outer_momentum():
    plain, more = (
        [exchange_memory(MB, name, 2, momentum=momentum) for name in STRATEGIES]
        for momentum in (False, True)
    )
    rises = [b - a for a, b in zip(plain, more, strict=True)]
    assert dict(zip(STRATEGIES, rises, strict=True)) == {
        name: 4 * MB * (name == "diloco") for name in STRATEGIES
    }


def machines(**changes):
    places = [("big", 0), ("big", 1), ("big", 2), ("small", 0)]
    four = [
        process(r, host=h, local_rank=n, peak_bytes=3 * 10**9 + r, **changes)
        for r, (h, n) in enumerate(places)
    ]
    return ProbeResults(job=JOB, processes=tuple(four))


def test_the_processes_of_a_machine_share_its_memory_but_not_that_of_their_devices():
    shared, each = machines(device="cpu"), machines(device="V100")
    kept = 4 * 10 * MB
    assert memory_of(shared, [0, 1, 2], "ddp").needed == 9 * 10**9 + 3 + 3 * kept
    assert memory_of(shared, [3], "ddp").needed == 3 * 10**9 + 3 + kept
    assert memory_of(each, [0, 1, 2], "ddp").needed == 3 * 10**9 + 2 + kept


def test_a_machine_without_room_is_told_once_and_only_that_machine():
    notes = [note for note in forecast(machines(device="cpu")).notes if "memory" in note]
    assert len(notes) == 1
    assert "the memory of big is nearly full: 91%" in notes[0]


def test_what_the_exchange_keeps_can_be_what_does_not_fit():
    fits, not_all = (
        " ".join(configured(strategy, peak_bytes=10**10 - 60 * MB).notes)
        for strategy in ("ddp", "compressed")
    )
    assert "is nearly full: 100%" in fits
    assert "the memory of node0 is too small: 101%" in not_all


def test_auto_needs_the_memory_of_what_it_chooses():
    found = configured("auto", rate=100 * MB)
    assert found.strategy == found.chosen.exchange.strategy == "compressed"
    assert configured("all_reduce").strategy == "all_reduce"


def test_what_was_not_measured_is_told():
    measured = ProbeResults(job=JOB, processes=(process(0), process(1)))
    assert not any("no time" in note for note in forecast(measured).notes)
    hasty = msgspec.structs.replace(measured, unmeasured=("translations", "checkpoints"))
    assert any("measure translations, checkpoints, " in note for note in forecast(hasty).notes)
