import pytest

from unisono.comm.strategies.diloco_outer import fragment_count, fragments_of, turn


@pytest.mark.parametrize("sizes", [[7], [1, 1, 1], [100, 3, 40, 1, 56], [3, 0, 5]])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_fragments_are_equal_and_hold_every_number_once(sizes, count):
    fragments = fragments_of(sizes, count)
    lengths = [sum(s.stop - s.start for s in fragment) for fragment in fragments]
    assert max(lengths) - min(lengths) <= 1
    slices = [s for fragment in fragments for s in fragment]
    numbers = [(s.weight, n) for s in slices for n in range(s.start, s.stop)]
    assert numbers == [(weight, n) for weight, size in enumerate(sizes) for n in range(size)]


@pytest.mark.parametrize("local_steps", [1, 2, 5, 8, 13, 100])
def test_every_fragment_has_its_turn_once_a_round_at_equal_distances(local_steps):
    count = fragment_count(local_steps, 8)
    turns = [(step, turn(step, local_steps, count)) for step in range(1, 3 * local_steps + 1)]
    taken = [(step, number) for step, number in turns if number is not None]
    assert [number for _, number in taken] == list(range(count)) * 3
    distances = [b - a for (a, _), (b, _) in zip(taken, taken[1:], strict=False)]
    assert max(distances, default=1) - min(distances, default=1) <= 1
    assert taken[count - 1][0] == local_steps


@pytest.mark.parametrize(
    ("local_steps", "count"),
    [(1, 1), (7, 7), (13, 13), (16, 16), (17, 16), (24, 12), (32, 16), (40, 10), (47, 16)],
)
def test_fragments_have_equal_distances_unless_they_would_be_too_few(local_steps, count):
    assert fragment_count(local_steps, 16) == count
