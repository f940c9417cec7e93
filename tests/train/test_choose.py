"""`auto` takes the least drastic way that hides the exchange, says so, and stays with it."""

import pytest

from unisono.physics.forecast import forecast
from unisono.physics.measured import Job, Measured, Process, Sum, Update
from unisono.physics.ring import ring_bytes
from unisono.train.choose import choose

MB = 1_000_000


def found(rate):
    """Two machines that compute 0.4 s an update and exchange 40 MB at `rate`."""
    job = Job(10 * MB, 4096, 150, updates=100, evaluations=1, checkpoints=1, strategy="auto")
    one = Update(0.1, 0.2, 0.1)
    summed = Sum(4 * MB, ring_bytes(MB, 2) / rate, 0.0)
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
        for rank in (0, 1)
    ]
    return forecast(Measured(job=job, processes=tuple(processes)))


@pytest.mark.parametrize(
    ("rate", "strategy", "bits"),
    [(10_000 * MB, "ddp", 32), (400 * MB, "compressed", 16), (40 * MB, "compressed", 4)],
)
def test_the_least_drastic_way_that_hides_the_exchange(rate, strategy, bits):
    choice = choose(found(rate))
    assert (choice.strategy, choice.bits) == (strategy, bits)
    assert "waiting for the network" in choice.reason
    assert ("exact" in choice.reason.split(";")[1]) == (strategy == "ddp")


def test_what_no_way_hides_is_done_the_fastest_way_and_said():
    choice = choose(found(1 * MB))
    assert (choice.strategy, choice.bits) == ("compressed", 4)
    assert "one machine alone would be faster" in choice.reason
