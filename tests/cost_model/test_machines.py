import pytest

from unisono.cost_model.exchange import machines_of
from unisono.cost_model.strategies import Payload


@pytest.mark.parametrize(
    ("hosts", "local_ranks", "machines"),
    [
        ("aabb", (0, 1, 0, 1), [[0, 1], [2, 3]]),
        ("abab", (0, 0, 1, 1), [[0, 2], [1, 3]]),  # dealt out in turns, as mpirun can
        ("abb", (0, 0, 1), [[0], [1, 2]]),
        ("aaaa", (0, 1, 0, 1), [[0, 1], [2, 3]]),  # two machines of one name
        ("aa", (0, 1), [[0, 1]]),
        ("ab", (0, 1), [[0], [1]]),  # whatever their local ranks
    ],
)
def test_processes_share_a_machine_by_name_and_local_rank(hosts, local_ranks, machines):
    assert machines_of(list(hosts), local_ranks) == machines


def test_a_machine_speaks_once_unless_there_is_only_one():
    assert Payload(100, machines=2, processes=4).senders == 2
    assert Payload(100, machines=1, processes=3).senders == 3
