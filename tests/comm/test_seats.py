"""Devices that cannot train together are refused before anything connects them."""

import re

import msgspec
import pytest
from join_processes import ends_of, start_together, variables

from support.ranks import free_port
from unisono.comm.bootstrap.roll_call import Arrival, RollCallVerdict, judge_findings
from unisono.comm.bootstrap.seats import DeviceSeat

V100 = DeviceSeat("cuda", "V100", (7, 0), "u0", "2.27.5", "580.65")


def changed(seat=V100, **further):
    return msgspec.structs.replace(seat, **further)


def verdict_on(*seats, hosts=("a", "b", "c")):
    arrivals = {
        rank: Arrival(host, 1, "", device=seat)
        for rank, (host, seat) in enumerate(zip(hosts, seats, strict=False))
    }
    return judge_findings(arrivals, {})


def test_devices_of_a_kind_need_no_word():
    assert verdict_on(DeviceSeat(), DeviceSeat()) == RollCallVerdict()
    assert verdict_on(V100, V100, V100) == RollCallVerdict()


@pytest.mark.parametrize(
    ("seats", "hosts", "words"),
    [
        ((V100, DeviceSeat()), "ab", r"process 0 on a .* a GPU \(V100\).* b on the CPU"),
        ((DeviceSeat(), V100), "ab", r"process 1 on b on a GPU \(V100\)"),
        ((V100, changed(nccl="2.21.5")), "ab", "NCCL 2.21.5, process 0 on a has 2.27.5"),
        ((V100, V100), "aa", "processes 0 and 1 on a have the same GPU"),
    ],
)
def test_what_cannot_train_together(seats, hosts, words):
    verdict = verdict_on(*seats, hosts=hosts)
    assert re.search(words, verdict.trouble)
    assert verdict.fix
    assert verdict.exit_code == 2


def test_what_is_worth_a_word():
    a100 = changed(name="A100", capability=(8, 0), uuid="u1")
    assert "slower one" in verdict_on(V100, a100).warnings[0]
    other = verdict_on(V100, changed(driver="535.1", uuid="u1"))
    assert "b has driver 535.1, a 580.65" in other.warnings[0]


@pytest.mark.ranks
def test_processes_on_different_devices_never_connect():
    seats, port = [DeviceSeat(), V100], free_port()
    started = start_together(
        [
            variables(
                rank,
                2,
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                SEAT=msgspec.json.encode(seat).decode(),
            )
            for rank, seat in enumerate(seats)
        ]
    )
    ends = ends_of(started)
    assert [end.exit_code for end in ends] == [2, 2]
    assert all("process 0" in end.said and "a GPU (V100)" in end.said for end in ends)
