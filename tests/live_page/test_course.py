"""The course of a run in bins, against all updates at once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.made_runs import BEGAN, start, step
from unisono.live_page import course as courses
from unisono.live_page.course import Course


def told(updates, **values):
    course = Course()
    course.hear(0, start())
    for number in range(1, updates + 1):
        course.hear(0, step(number, **values))
    return course


@given(st.lists(st.floats(0.1, 9), min_size=1, max_size=1500))
def test_bins_hold_every_update_with_its_extremes(losses):
    course = Course()
    for number, loss in enumerate(losses, start=1):
        course.hear(0, step(number, loss=loss))
    bins = course.losses
    assert len(bins) <= courses.COURSE_BINS
    assert course.updates == len(losses)
    assert min(one.low for one in bins) == min(losses)
    assert max(one.high for one in bins) == max(losses)
    assert all(one.low <= one.mean <= one.high * (1 + 1e-12) for one in bins)
    assert course.ends == [1, len(losses)]
    width, first = course.width, bins[0]
    assert first.mean == pytest.approx(sum(losses[:width]) / len(losses[:width]))


def test_memory_does_not_grow_with_the_run():
    few, many = told(1000), told(20_000)
    assert len(few.losses) <= courses.COURSE_BINS
    assert len(many.losses) <= courses.COURSE_BINS
    assert many.updates == 20_000
    assert len(many._open) <= many.width


def test_what_is_not_a_number_is_left_out():
    course = told(3)
    course.hear(0, step(4, loss=math.nan))
    course.hear(0, step(5, loss=math.inf))
    assert [one.x for one in course.losses] == [1, 2, 3]
    assert len(course.seconds) == 5


def test_a_restart_undoes_the_updates_after_its_checkpoint():
    course = told(1000)
    before = course.width
    course.hear(0, start(step=500, time=BEGAN + 2000))
    assert course.ends[1] <= 500 < course.ends[1] + before + 1
    course.hear(0, step(501, time=BEGAN + 2001))
    assert course.ends[1] == 501


def test_the_step_of_a_time_is_known_but_not_in_a_pause():
    course = told(50)
    course.hear(0, step(51, time=BEGAN + 90))  # 39 s of validation after update 50
    assert course.step_between(BEGAN + 9, BEGAN + 11) == pytest.approx(10, abs=1)
    assert course.step_between(BEGAN + 60, BEGAN + 70) is None
    assert course.step_between(BEGAN + 89.2, BEGAN + 89.8) == pytest.approx(50.5, abs=0.6)
    assert course.step_between(BEGAN - 50, BEGAN - 40) is None


def test_another_run_in_the_place_begins_anew():
    course = told(700)
    course.forget(1)
    assert course.updates == 700
    course.forget(0)
    assert (course.updates, course.width, course.losses) == (0, 1, [])
