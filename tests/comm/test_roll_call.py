"""What process 0 makes of what the others found out."""

import pytest

from unisono.clock_skew import ClockOffset
from unisono.comm.bootstrap.roll_call import (
    Arrival,
    RollCallFindings,
    RollCallVerdict,
    judge_findings,
)

ARRIVALS = {rank: Arrival(f"node{rank}", 7, f"10.0.0.{rank + 1}") for rank in range(3)}


def verdict_on(**findings):
    return judge_findings(
        ARRIVALS, {rank: findings.get(f"of_{rank}", RollCallFindings()) for rank in range(3)}
    )


def test_nothing_to_say_about_processes_that_fit():
    late = RollCallFindings(clock=ClockOffset(ahead=0.9, uncertainty=0.1))
    assert verdict_on(of_1=late) == RollCallVerdict()


def test_who_cannot_reach_whom():
    verdict = verdict_on(
        of_2=RollCallFindings(unreached={1: "10.0.0.2 port 5 does not answer"})
    )
    assert verdict.trouble == (
        "process 2 on node2 (10.0.0.3) cannot reach process 1 on node1: "
        "10.0.0.2 port 5 does not answer"
    )


@pytest.mark.parametrize(
    ("ahead", "uncertainty", "warned", "wrong"),
    [
        (0.9, 0.0, False, False),
        (-1.1, 0.0, True, False),
        (1.5, 0.6, False, False),  # a slow answer proves nothing
        (4.9, 0.1, True, False),
        (-20.0, 0.1, False, True),
        (6.0, 1.5, True, False),
    ],
)
def test_clocks(ahead, uncertainty, warned, wrong):
    verdict = verdict_on(of_1=RollCallFindings(clock=ClockOffset(ahead, uncertainty)))
    assert (bool(verdict.warnings), bool(verdict.trouble)) == (warned, wrong)
    for said in (*verdict.warnings, *filter(None, [verdict.trouble])):
        way = "ahead of" if ahead > 0 else "behind"
        assert said == f"the clock of node1 is {abs(ahead):.1f} s {way} that of node0"
