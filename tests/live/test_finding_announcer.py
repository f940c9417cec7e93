"""What is said of a run while it goes on, and that it is said once."""

from dataclasses import replace

import msgspec
import pytest

from diagnose.made_runs import BEGAN, curve, healthy_run, start, step, team
from diagnose.test_rules import SICK, STUCK, with_samples
from unisono.diagnose.report import Finding
from unisono.diagnose.rules import RULES
from unisono.live.live_diagnosis import FindingAnnouncer, Look, look_at
from unisono.live.window import NEED_THE_END, SAID_OTHERWISE, recent_case


def finding(name="padding", about=""):
    return Finding(id=name, severity="warning", summary=f"{name}.", advice="Do.", about=about)


def verdict(cause="compute"):
    return finding("bottleneck", about=cause)


def look(*findings, first=2, last=50):
    return Look(BEGAN + last, first, last, findings)


def names(said):
    return [(found.id, found.about, found.over) for found in said]


def late(rank, n):
    return {"backward": 0.5 if rank else 0.1, "exchange": 0.02 if rank else 0.42}


# --- what is certain --------------------------------------------------------------------


def test_the_verdict_and_a_late_rank_are_found_within_fifty_updates():
    found = look_at(replace(team(late, ["a", "a"], steps=50), ends=()), BEGAN + 51)
    assert (found.first_step, found.step) == (2, 50)
    (first, second) = found.findings
    assert (first.id, first.about) == ("bottleneck", "straggler, rank 1")
    assert "rank 1): 20 % of the time; without it a step would take" in first.summary
    assert (second.id, second.about) == ("straggler", "rank 1")
    assert second.advice


def test_too_few_updates_say_nothing():
    assert look_at(healthy_run(steps=5, ends=()), BEGAN + 6) is None


@pytest.mark.parametrize("name", sorted(set(RULES) - SAID_OTHERWISE - NEED_THE_END))
def test_every_rule_that_needs_no_end_is_heard_while_it_goes_on(name):
    run = replace(SICK[name](), ends=())
    found = look_at(run, BEGAN + 201)
    assert name in [one.id for one in found.findings]


def test_odd_translations_wait_for_the_report():
    run = replace(with_samples([STUCK] * 5), ends=())
    made = tuple(msgspec.structs.replace(v, empty=300) for v in curve([2.5] * 5))
    for one in (run, healthy_run(validations=made, ends=())):
        assert [f.id for f in look_at(one, BEGAN + 201).findings] == ["bottleneck"]


def test_a_pause_between_two_starts_is_no_part_of_what_is_looked_at():
    before = [step(n) for n in range(1, 101)]
    again = [step(n, time=BEGAN + 10_000 + n) for n in range(101, 160)]
    run = healthy_run(
        starts=(start(), start(step=100, time=BEGAN + 10_000)),
        ranks={0: (*before, *again)},
        validations=(),
        saves=(),
        ends=(),
    )
    case = recent_case(run, BEGAN + 10_160)
    assert (case.run.steps[0].step, case.ledger.wall) == (102, pytest.approx(58.0))
    assert case.bottleneck.cause == "compute"


def test_one_long_validation_does_not_make_the_verdict_but_many_do():
    def validating(count):
        events = [msgspec.structs.replace(v, seconds=40.0) for v in curve([2.5] * 5)]
        return recent_case(healthy_run(validations=tuple(events[:count]), ends=()), BEGAN + 201)

    assert validating(1).bottleneck.cause == "compute"
    assert validating(5).bottleneck.cause == "evaluation"


# --- what is new ------------------------------------------------------------------------


def test_each_finding_is_said_once_while_it_lasts():
    teller = FindingAnnouncer()
    assert names(teller.news(look(verdict(), finding()))) == [
        ("bottleneck", "compute", False),
        ("padding", "", False),
    ]
    assert teller.news(look(verdict(), finding(), first=60, last=350)) == []


def test_another_machine_is_another_finding():
    teller = FindingAnnouncer(FindingAnnouncer().news(look(finding("memory", "alpha"))))
    assert names(teller.news(look(finding("memory", "alpha"), finding("memory", "beta")))) == [
        ("memory", "beta", False)
    ]


def test_what_was_gone_is_said_again_and_what_wavers_is_not():
    teller = FindingAnnouncer()
    teller.news(look(finding(), last=50))
    assert teller.news(look(first=50, last=349)) == []  # some of those updates still count
    assert teller.news(look(finding(), first=50, last=349)) == []
    for again in (350, 650):  # a look that misses it is not enough, nor are two
        assert teller.news(look(first=again, last=again + 299)) == []
    assert names(teller.news(look(first=950, last=1249))) == [("padding", "", True)]
    assert names(teller.news(look(finding(), first=1000, last=1299))) == [
        ("padding", "", False)
    ]


def test_what_every_other_look_of_a_fast_run_misses_is_not_repeated():
    teller = FindingAnnouncer(FindingAnnouncer().news(look(finding())))
    for number in range(1, 10):
        found = [finding()] if number % 2 else []
        assert teller.news(look(*found, first=1000 * number, last=1000 * number + 299)) == []


def test_a_run_that_is_continued_does_not_repeat_itself():
    said = FindingAnnouncer().news(look(verdict(), finding()))
    again = FindingAnnouncer(said)
    assert again.news(look(verdict(), finding(), first=1002, last=1050)) == []
    looks = [look(first=first, last=first + 48) for first in (1002, 1302, 1602)]
    over = FindingAnnouncer([*said, *(found for one in looks for found in again.news(one))])
    assert names(over.news(look(finding(), first=2002, last=2050))) == [("padding", "", False)]


def test_another_verdict_has_to_last_and_comes_once():
    teller = FindingAnnouncer()
    teller.news(look(verdict("compute")))
    said = [teller.news(look(verdict("network"), last=n)) for n in (60, 70, 80, 90)]
    assert [len(one) for one in said] == [0, 0, 1, 0]
    for _ in range(5):
        assert teller.news(look(verdict("compute"))) == []


def test_an_event_tells_what_and_what_to_do():
    (event,) = FindingAnnouncer().news(look(finding()))
    assert (event.step, event.time) == (50, BEGAN + 50)
    assert (event.summary, event.advice, event.severity) == ("padding.", "Do.", "warning")
