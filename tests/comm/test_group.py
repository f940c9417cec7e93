import socket

import pytest
import torch

from unisono.comm.bootstrap.join import world_of
from unisono.comm.bootstrap.launcher_env import LauncherEnv
from unisono.comm.collectives import all_or_none, check_same, tensors_from_leader
from unisono.comm.group import Solo
from unisono.comm.protocol import World
from unisono.errors import DataError, PeerFailedError, RunError

HOST = socket.gethostname()


def test_a_place_has_a_device_of_its_own():
    env = LauncherEnv("torchrun", rank=3, size=4, local_rank=1, local_size=2)
    assert world_of(env, "cuda") == World(3, 4, 1, 2, "cuda:1")
    assert not world_of(env, "cpu").leads
    assert world_of(LauncherEnv(), "cpu") == World()


def test_a_process_that_sees_but_one_gpu_takes_it(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    env = LauncherEnv("slurm", rank=3, size=4, local_rank=1, local_size=2)
    assert world_of(env, "cuda").device == "cuda:0"


def say(comm):
    rank = comm.world.rank
    leader = {"a": torch.arange(3.0), "b": torch.tensor(7)} if rank == 0 else {}
    return {
        "sum": comm.sum(torch.tensor([1.0, rank])).tolist(),
        "gather": comm.gather([rank, 0.1]),
        "bytes": comm.gather_bytes(b"x" * rank),
        "none": comm.any(False),
        "one": comm.any(rank == comm.world.size - 1),
        "from_leader": comm.from_leader(torch.tensor([rank + 5])).tolist(),
        "tensors": {k: v.tolist() for k, v in tensors_from_leader(comm, leader).items()},
    }


def expected(size):
    return {
        "sum": [float(size), sum(range(size))],
        "gather": [[rank, 0.1] for rank in range(size)],
        "bytes": [b"x" * rank for rank in range(size)],
        "none": False,
        "one": True,
        "from_leader": [5],
        "tensors": {"a": [0.0, 1.0, 2.0], "b": 7},
    }


def test_one_process_agrees_with_itself():
    assert say(Solo()) == expected(1)


@pytest.mark.ranks
def test_processes_say_the_same_things(ranks):
    assert ranks.run(say) == [expected(ranks.size)] * ranks.size


def fail_on(comm, rank):
    def action():
        if comm.world.rank == rank:
            raise DataError("no such file")
        return 1

    try:
        return all_or_none(comm, action)
    except PeerFailedError as error:
        return f"dismissed with {error.exit_code}"
    except RunError as error:
        return f"run error {error.exit_code}: {error}"
    except DataError as error:
        return f"data error {error.exit_code}: {error}"


@pytest.mark.ranks
def test_if_one_fails_all_fail_and_the_reason_is_told_once(ranks):
    others = ranks.size - 1
    known, dismissed = "data error 3: no such file", "dismissed with 3"
    assert ranks.run(fail_on, 0) == [known] + [dismissed] * others
    found = ranks.run(fail_on, 1)
    assert found[:2] == ["run error 3: process 1 failed: no such file", known]
    assert set(found[2:]) <= {dismissed}
    assert ranks.run(fail_on, -1) == [1] * ranks.size


def differ(comm):
    facts = {"the corpus": "b" if comm.world.rank == 1 else "a", "torch": "2"}
    try:
        check_same(comm, facts)
    except RunError as error:
        return str(error)


@pytest.mark.ranks
def test_a_process_with_another_corpus_is_named(ranks):
    for text in ranks.run(differ):
        assert f"the corpus: process 0 on {HOST} has a, process 1 on {HOST} has b" in text


def know_more(comm):
    try:
        check_same(comm, {"torch": "2", **({"a setting": "1"} if comm.world.rank == 1 else {})})
    except RunError as error:
        return str(error)


@pytest.mark.ranks
def test_what_only_one_process_has_is_a_difference(ranks):
    for text in ranks.run(know_more):
        assert f"on a setting: process 0 on {HOST} has nothing, process 1" in text
