"""The quick way through the history of a run: what it must not miss."""

from hypothesis import given
from hypothesis import strategies as st

from diagnose.made_runs import saved, start, step, validated
from diagnose.made_samples import machine, samples
from unisono.records import skim
from unisono.records.events import to_line
from unisono.records.monitor_events import to_line as sampled_line
from unisono.records.skim import some_samples, some_updates, stride_of


def numbers(lines):
    return [skim._step_of(line) for line in lines if line.startswith(skim.UPDATE)]


@given(st.sets(st.integers(1, 300)), st.sampled_from([1, 2, 16, 64]))
def test_all_that_is_rare_is_kept_and_the_same_updates_of_every_process(pauses, stride):
    files = []
    for rank in (0, 1):
        events = [start(rank, 2)]
        for number in range(1, 301):
            events.append(step(number, loss=2.0 + rank))
            events += [validated(number, 2.0)] if number in pauses and not rank else []
        files.append([to_line(event) for event in events])
    first, second = (list(some_updates(lines, stride)) for lines in files)
    rare = [line for line in files[0] if not line.startswith(skim.UPDATE)]
    assert [line for line in first if not line.startswith(skim.UPDATE)] == rare
    regular = {number for number in range(1, 301) if number % stride == 0}
    around = {n for pause in pauses for n in (pause, pause + 1) if n <= 300}
    assert set(numbers(first)) == regular | around | {1, 300}
    assert set(numbers(second)) == regular | {1, 300}
    assert first == [line for line in files[0] if line in set(first)]


def test_a_line_that_is_damaged_is_left_to_who_decodes_it():
    lines = [b'{"kind":"step","step":x}', b"", b"torn", to_line(saved(3))]
    assert list(some_updates(lines, 64)) == lines


def test_every_start_of_a_sampler_is_kept():
    lines = [sampled_line(event) for event in (*samples(count=9), machine(), *samples(count=3))]
    kept = list(some_samples(lines, 4))
    assert kept == [lines[place] for place in (0, 4, 8, 9, 12)]


def test_strides_are_powers_of_two_and_1_for_a_short_file():
    assert stride_of(0) == stride_of(skim.LINE_BYTES * skim.SKIMMED) == 1
    strides = {stride_of(10**6 * size) for size in range(2000)}
    assert strides == {2**n for n in range(len(strides))}
    assert 10**9 / skim.LINE_BYTES / stride_of(10**9) < 2 * skim.SKIMMED
