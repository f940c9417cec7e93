"""What the disks did is told as evidence, and whose traffic it was."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import BEGAN, healthy_run, now, saved
from diagnose.made_samples import machine, sampled, samples
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.evidence.counters import Stretch
from unisono.diagnose.evidence.machine_load import disk_use
from unisono.records.monitor_events import MachineLog

MB = 10**6


def disks(read=0.0, written=0.0, own_read=0.0, own_written=0.0, **fields):
    """Counters that rise by so many MB a second."""
    rates = {
        "disk_read": read,
        "disk_written": written,
        "own_read": own_read,
        "own_written": own_written,
    }
    counters = {n: lambda second, r=r: round(r * MB * second) for n, r in rates.items()}
    return {**counters, **fields}


def finding(run, name):
    (found,) = [found for found in diagnose(run, now()).findings if found.id == name]
    return found


def waits_for_data(**fields):
    steps = tuple(
        msgspec.structs.replace(s, data=0.5, backward=0.0) for s in healthy_run().ranks[0]
    )
    return sampled(healthy_run(ranks={0: steps}), **fields)


def saves_often(fields, seconds=3.0, every=20):
    # A checkpoint is within the step after it here; the disks do not mind.
    saves = tuple(
        msgspec.structs.replace(saved(n, seconds=seconds), time=BEGAN + n + seconds)
        for n in range(every, 190, every)
    )
    return sampled(replace(healthy_run(), saves=saves), **fields)


def test_the_runs_own_traffic_is_told_from_that_of_others():
    looks = samples(count=20, **disks(read=30, written=5, own_read=2, own_written=5))
    use = disk_use(looks, [Stretch(BEGAN + 2, BEGAN + 12, 10)])
    assert (use.read, use.own_read, use.foreign) == pytest.approx((30e6, 2e6, 28e6))


def test_what_was_written_but_is_not_on_the_disk_yet_is_not_foreign():
    looks = samples(count=20, **disks(read=4, written=1, own_read=4, own_written=9))
    assert disk_use(looks, [Stretch(BEGAN + 2, BEGAN + 12, 10)]).foreign == 0


def test_of_an_older_version_whose_traffic_it_was_is_not_known():
    looks = samples(count=20, disk_read=lambda second: 30 * MB * second)
    use = disk_use(looks, [Stretch(BEGAN + 2, BEGAN + 12, 10)])
    assert (use.read, use.own_read, use.foreign) == (pytest.approx(30e6), None, None)
    assert "this run" not in use.words("alpha")


def test_waiting_for_data_is_told_with_what_the_disks_did():
    run = waits_for_data(**disks(read=80, own_read=2, disk_wait=0.2))
    evidence = finding(run, "input_bound").evidence
    assert any("alpha read 80.0 MB/s (this run 2.0 MB/s)" in line for line in evidence)
    assert any("20 % of its processors' time" in line for line in evidence)
    assert any("other programs moved 78.0 MB/s" in line for line in evidence)


def test_idle_disks_say_that_it_is_not_reading():
    evidence = finding(waits_for_data(**disks()), "input_bound").evidence
    assert any("making batches takes the time" in line for line in evidence)


def test_a_checkpoint_is_told_with_its_rate_and_that_of_the_disk_meanwhile():
    fields = disks(written=40, own_written=25)
    evidence = finding(saves_often(fields), "checkpoint_cost").evidence
    assert any(line.startswith("731 MB each: 244 MB/s") for line in evidence)
    assert any("wrote 40.0 MB/s (this run 25.0 MB/s)" in line for line in evidence)
    assert not any("other programs" in line for line in evidence)


def test_others_who_write_during_checkpoints_are_named():
    evidence = finding(
        saves_often(disks(written=90, own_written=9)), "checkpoint_cost"
    ).evidence
    assert any("other programs moved 81.0 MB/s" in line for line in evidence)


def test_checkpoints_that_are_over_between_two_looks_say_nothing_of_the_disk():
    fields = disks(written=90, own_written=9)
    run = saves_often(fields, seconds=0.8, every=5)
    evidence = finding(run, "checkpoint_cost").evidence
    assert len(evidence) == 2
    assert not any("meanwhile" in line for line in evidence)


def test_counters_of_an_earlier_start_do_not_count():
    earlier, later = machine(time=BEGAN - 50), machine(time=BEGAN)
    before = [msgspec.structs.replace(s, time=s.time - 50) for s in samples(count=10)]
    log = MachineLog((earlier, later), (*before, *samples(count=30)))
    assert [s.time for s in log.of_last_start] == [s.time for s in samples(count=30)]
