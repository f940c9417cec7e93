"""The scenarios: what is done to a run, and what the report has to say."""

from dataclasses import dataclass, replace

from diagnosis import disturb
from diagnosis.course import NEVER, Course
from diagnosis.judge import (
    Check,
    Judge,
    changed,
    finds,
    flowed,
    healthy,
    late,
    late_machine,
    link_carries,
    lost,
    padded,
    says,
    slowed_by,
)
from diagnosis.learning import broke_down, is_trained, is_unfinished, lesson, overfits
from diagnosis.truth import (
    against_healthy,
    against_idle_core,
    against_idle_machine,
    against_no_network,
    by_journal,
    counted_padding,
)

SMALL_BATCHES = {"batching": {"tokens_per_update": 512, "tokens_per_micro_batch": 256}}
FOUR_BATCHES = {"batching": {"tokens_per_update": 2048, "tokens_per_micro_batch": 512}}
TINY_BUCKETS = {"sync": {"bucket_mb": 0.1}}
OFTEN_SCORED = {"validation": {"every_steps": 5, "bleu": True, "samples": 8}}
OFTEN_SAVED = {"checkpoint": {"every_steps": 10}}
COMPARED = {"sync": {"check_weights": "warn", "check_weights_every_steps": 10}}
UNGUARDED = {"guard": False}
FALLING = {
    **{"name": "linear", "peak": 0.004, "floor": 4e-5, "warmup_steps": 50},
    "total_steps": 500,
}

ALONE = Course(steps=60, nodes=1, tables={"batching": {"tokens_per_update": 1024}})
BREAK_AT = 15
MBIT = 1e6 / 8


@dataclass(frozen=True)
class Scenario:
    """What is done, in words; how; and who judges what is said of it.

    `implied` are further findings that are true of such a run: all others are false alarms.
    `really` says how the fault is made where that is not what its name says.
    """

    what: str
    course: Course
    judge: Judge
    implied: tuple[str, ...] = ()
    really: str = ""


# Where the exchange or a slow machine takes most of the time, the faster machine alone would be
# about as fast, and a report that says so is right.
ONE_WOULD_DO = ("more_machines",)
# A run that breaks off may have recorded what it noticed of it.
BROKEN = ("warnings",)
# Losses that jump, and updates that are not finite, are how a model diverges.
DIVERGING = ("loss_spike", "skipped_steps", "always_clipped")


def _network(finding: str, culprit: Check | None) -> Judge:
    return slowed_by("network", finding, culprit, against_no_network)


SCENARIOS: dict[str, Scenario] = {
    "one-rank": Scenario(
        "one process, nothing wrong",
        ALONE,
        healthy,
    ),
    "two-ranks": Scenario("two machines, no limit", Course(steps=60), healthy),
    "slow-link": Scenario(
        "links of 100 Mbit/s",
        Course(link="100mbit"),
        _network("", link_carries(100)),
        ONE_WOULD_DO,
    ),
    "partly-hidden": Scenario(
        "links of 1 Gbit/s, small batches",
        Course(steps=120, link="1gbit", tables=SMALL_BATCHES),
        _network("", None),
        ONE_WOULD_DO,
    ),
    "one-direction": Scenario(
        "node1 sends at 40 Mbit/s, the rest at 400",
        Course(steps=40, link="400mbit", link_from={1: "40mbit"}),
        _network("slow_direction", says("slow_direction", "From node1 to node0")),
        ONE_WOULD_DO,
    ),
    "burst": Scenario(
        "200 Mbit/s, from update 25 on 50 Mbit/s",
        Course(steps=80, link="200mbit", disturb=disturb.slow_link_at(25, "50mbit")),
        _network("burst_credits", changed(200, 50)),
        ONE_WOULD_DO,
    ),
    "long-way": Scenario(
        "20 ms there and back, buckets of 0.1 MB",
        Course(steps=55, further=1, tables=TINY_BUCKETS, furnish=disturb.go_a_long_way(0.01)),
        _network("latency_bound", says("latency_bound", "ms")),
        ONE_WOULD_DO,
    ),
    "other-flow": Scenario(
        "links of 100 Mbit/s, a copy takes half of one",
        Course(steps=60, link="100mbit", disturb=disturb.other_flow(50 * MBIT)),
        _network("foreign_traffic", flowed),
        ONE_WOULD_DO,
    ),
    "wrong-interface": Scenario(
        "links of 100 Mbit/s beside a cable without a limit",
        Course(steps=60, link="100mbit", furnish=disturb.lay_free_cable),
        _network("wrong_interface", says("wrong_interface", "eth1 lies idle")),
        ONE_WOULD_DO,
    ),
    "slow-input": Scenario(
        "every batch takes 0.6 s to put together",
        Course(faults={"slow_collate": {"seconds": 0.6}}),
        slowed_by("data", "input_bound", None, against_healthy),
    ),
    "slow-input-one": Scenario(
        "on rank 1 every batch takes 0.6 s to put together",
        Course(faults={"slow_collate": {"seconds": 0.6, "ranks": [1]}}),
        slowed_by("straggler", "straggler", late(1, "its data came late"), against_healthy),
        ONE_WOULD_DO,
    ),
    "quota": Scenario(
        "rank 1 may compute for 40 % of the time",
        Course(disturb=disturb.quota(1, 0.4)),
        slowed_by(
            "straggler", "straggler", late(1, "it computes more slowly"), against_idle_core
        ),
        ONE_WOULD_DO,
        "the process is stopped and continued by signals, for 60 of every 100 ms; no control "
        "group has a limit, so what the kernel counts of one (`held_back`) is not put to the "
        "test",
    ),
    "slow-machine": Scenario(
        "both ranks of node1 may compute for 40 % of the time",
        Course(steps=50, workers=2, tables=FOUR_BATCHES, disturb=disturb.quota(1, 0.4)),
        slowed_by(
            "straggler", "straggler", late_machine("node1", (2, 3)), against_idle_machine
        ),
        # Its two processes share the one core that a node of the laboratory has.
        (*ONE_WOULD_DO, "oversubscribed"),
        "as in `quota`, both processes at the same times",
    ),
    "long-sentences": Scenario(
        "rank 1 gets three of four micro-batches",
        Course(tables=FOUR_BATCHES, faults={"long_share": {}}),
        slowed_by(
            "straggler",
            "straggler",
            late(1, "its share of every update is larger"),
            against_healthy,
        ),
    ),
    "padding": Scenario(
        "sentences of any length together",
        Course(steps=60, faults={"random_batches": {"ranks": [0, 1]}}),
        padded(counted_padding),
    ),
    "evaluation": Scenario(
        "validation with BLEU every 5 updates",
        Course(steps=60, tables=OFTEN_SCORED, faults={"timed_evaluation": {"ranks": [0]}}),
        slowed_by("evaluation", "evaluation_cost", None, by_journal),
        ("checkpoint_cost",),
    ),
    "slow-disk": Scenario(
        "a checkpoint every 10 updates on a disk of 4 MB/s",
        Course(
            tables=OFTEN_SAVED,
            faults={"slow_disk": {"bytes_per_second": 4e6, "ranks": [0]}},
        ),
        slowed_by("checkpoint", "checkpoint_cost", None, by_journal),
        really="after every fsync the process sleeps for as long as such a disk would take; "
        "the disk itself is as fast as ever, so what is sampled of it is not put to the test",
    ),
    "stopped": Scenario(
        "rank 1 gets SIGSTOP",
        Course(steps=NEVER, disturb=disturb.stop(1, BREAK_AT), breaks=True),
        lost("process stopped"),
        BROKEN,
    ),
    "killed": Scenario(
        "rank 1 gets SIGKILL",
        Course(steps=NEVER, disturb=disturb.kill(1, BREAK_AT), breaks=True),
        lost("process died"),
        BROKEN,
    ),
    "cable": Scenario(
        "the cable of node1 is pulled",
        Course(steps=NEVER, disturb=disturb.pull_cable(1, BREAK_AT), breaks=True),
        lost("machine or link gone"),
        BROKEN,
    ),
    "overfit": Scenario(
        "250 pairs, learnt by heart",
        lesson(400, "primer"),
        overfits,
        # So few sentences find none of their own length: 23 % of the positions are padding.
        ("padding",),
    ),
    "unfinished": Scenario("stopped too early", lesson(150), is_unfinished),
    "trained": Scenario(
        "trained at a falling rate until nothing more comes",
        lesson(900, schedule=FALLING),
        is_trained,
    ),
    "diverging": Scenario(
        "300 times the learning rate from update 200 on",
        replace(
            lesson(300, train=UNGUARDED),
            faults={"high_rate": {"step": 200, "factor": 300.0}},
        ),
        broke_down(200),
        DIVERGING,
    ),
    "desync": Scenario(
        "rank 1 leaves out update 25",
        Course(tables=COMPARED, faults={"skipped_update": {"step": 25, "ranks": [1]}}),
        finds("drifted_ranks", says("drifted_ranks", "rank 1", "first at step 30")),
    ),
}

HEALTHY: tuple[Course, ...] = (Course(steps=60), Course(steps=60, nodes=1, workers=2), ALONE)
