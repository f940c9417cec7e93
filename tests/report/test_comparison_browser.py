"""The page of several runs in a real browser."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from diagnose.made_runs import now
from report.browser import overflow, panel, point_at, values
from report.rich_run import rich_run
from unisono.diagnose.diagnosis import diagnose
from unisono.report.comparison import compare_runs
from unisono.report.page import render_comparison

pytestmark = pytest.mark.ranks

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def two_runs(name="b"):
    """A run, and one of another name that was a minute behind it all the time."""
    one = rich_run(path=Path("runs/a"))
    late = tuple(msgspec.structs.replace(v, time=v.time + 60) for v in one.validations)
    two = replace(one, path=Path("runs") / name, validations=late)
    return [(run, diagnose(run, now())) for run in (one, two)]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_and_shows_what_the_table_says(shown, width, scheme):
    runs = two_runs()
    page = shown(render_comparison(runs), width, scheme)
    assert page.troubles == []
    assert [url.split(":")[0] for url in page.asked] == ["file"]
    assert overflow(page) == 0
    told = [
        [cell.strip() for cell in row.locator("th, td").all_inner_texts()]
        for row in page.locator("table").first.locator("tbody tr").all()
    ]
    assert told == [[row.name, *row.cells] for row in compare_runs(runs).results]
    for one in page.locator(".panel svg").all():
        assert one.locator("path.curve").count() == 2


def test_pointing_reads_steps_and_times_each_on_its_own_axis(shown):
    page = shown(render_comparison(two_runs()))
    losses = panel(page, "Validation loss")
    by_step, by_time = losses.nth(0), losses.nth(1)
    at_the_end = values(by_step)
    point_at(page, by_step, 0.5)
    first, second = values(by_step)
    assert by_step.locator(".when").inner_text() == "step 100"
    assert by_time.locator(".when").inner_text() == "at the end"
    assert first.removeprefix("a ") == second.removeprefix("b ")
    point_at(page, by_time, 0.5)
    assert by_step.locator(".when").inner_text() == "at the end"
    assert values(by_step) == at_the_end
    first, second = (float(one.split()[1]) for one in values(by_time))
    assert first < second
    assert page.troubles == []


def test_what_others_wrote_takes_nothing_over(shown):
    page = shown(render_comparison(two_runs(EVIL.replace("/", ""))))
    assert page.troubles == []
    assert page.locator("main img").count() == 0
    assert page.locator("script").count() == 1


def test_a_long_signature_pushes_no_run_off_the_page(shown):
    signature = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    runs = [(signed(run, signature), report) for run, report in two_runs()]
    assert signature in [row.cells[0] for row in compare_runs(runs).results]
    page = shown(render_comparison(runs), 1100)
    hidden = "e => e.scrollWidth - e.clientWidth"
    assert all(table.evaluate(hidden) == 0 for table in page.locator(".wide").all())


def signed(run, signature):
    """The run with another signature of BLEU in all of its scores."""
    scores = {
        name: tuple(
            msgspec.structs.replace(v, bleu_signature=signature) for v in getattr(run, name)
        )
        for name in ("validations", "tests")
    }
    return replace(run, **scores)
