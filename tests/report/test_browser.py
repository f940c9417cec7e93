"""The page in a real browser: it opens, fits, is true, and nothing of the run takes over."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from diagnose.made_runs import now
from report.browser import overflow, panel, point_at, text_of, values
from report.rich_run import loss_at, rich_run
from unisono.diagnose.diagnosis import diagnose
from unisono.diagnose.wording import percent
from unisono.records.view import Sample, read_run
from unisono.report.facts import CAUSES
from unisono.report.page import render_html, render_json

pytestmark = pytest.mark.ranks

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'"
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def opened(shown):
    """Open the page of a run."""

    def opening(run, *how, **more):
        report = diagnose(run, now())
        page = shown(render_html(report, run), *how, **more)
        page.report = json.loads(render_json(report))
        return page

    return opening


PANELS = ["Over the run", "Loss", "BLEU", "Learning rate", "Step time", "Network rate"]
PANELS += ["CPU use", "GPU use", "GPU power", "GPU memory", "Memory"]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_fits_and_has_its_charts(opened, width, scheme):
    page = opened(rich_run(), width, scheme)
    assert page.troubles == []
    assert [url.split(":")[0] for url in page.asked] == ["file"]
    assert overflow(page) == 0
    for title in PANELS:
        box = panel(page, title).locator("svg").bounding_box()
        assert box["width"] > 0.75 * (width - 300 if width > 1000 else width - 100)
        assert box["height"] >= 80
    paper, curve = page.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.querySelector("path.curve.first")).stroke]"""
    )
    assert (brightness(paper) < 60) == (scheme == "dark")
    assert abs(brightness(paper) - brightness(curve)) > 80
    page.emulate_media(media="print")
    assert overflow(page) == 0


def brightness(colour):
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3


def test_the_curves_lie_inside_their_fields(opened):
    page = opened(rich_run())
    for one in page.locator("svg.plot").all():
        frame = one.bounding_box()
        for curve in one.locator("path.curve, path.layer").all():
            box = curve.bounding_box()
            assert box["width"] > 0.9 * frame["width"]
            assert box["y"] >= frame["y"] - 4
            assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 4


def test_the_numbers_are_those_of_the_json(opened):
    page = opened(rich_run())
    report = page.report
    assert text_of(page, ".headline").replace("`", "") == report["headline"].replace("`", "")
    shares = dict(
        re.match(r"(.*?)\s*([\d.]+ %)$", " ".join(line.split())).groups()
        for line in page.locator(".keys li").all_inner_texts()
    )
    assert shares == {
        CAUSES[cause]: percent(share) for cause, share in report["bottleneck"]["shares"].items()
    }
    for answer in report["answers"]:
        card = f"#{answer['id']}"
        assert answer["verdict"].replace("_", " ") == text_of(page, f"{card} .badge")
        plain = " ".join(answer["summary"].replace("`", "").split())
        assert plain == text_of(page, f"{card} > div:nth-child(2) > p")
    for finding in report["findings"]:
        assert " ".join(finding["summary"].split()) in " ".join(
            page.locator("article.card").all_inner_texts()
        ).replace("\xa0", " ")
    learnt = next(a for a in report["answers"] if a["id"] == "overfitting")["values"]
    best = f"best {learnt['best_loss']:.3f} at {learnt['best_step']:,}"
    assert panel(page, "Loss").locator(".mark").inner_text() == best
    step_time = next(a for a in report["answers"] if a["id"] == "step_time")["values"]
    parts = values(panel(page, "Over the run"))
    seconds = sum(float(re.search(r"([\d.]+) s$", part)[1]) for part in parts)
    assert seconds == pytest.approx(step_time["mean_seconds"], abs=0.01 * len(parts))


def test_pointing_at_a_step_shows_the_values_of_all_panels(opened):
    page = opened(rich_run())
    loss, power = panel(page, "Loss"), panel(page, "GPU power")
    at_the_end = values(loss), values(power)
    for step in (40, 111):
        point_at(page, loss, step / 200)
        assert loss.locator(".when").inner_text() == f"step {step}"
        assert power.locator(".when").inner_text() == f"step {step}"
        assert values(loss)[0] == f"training {loss_at(step):.3f}"
    assert values(power) != at_the_end[1]
    assert values(panel(page, "Over the run"))[:2] == ["forward 0.100 s", "backward 0.150 s"]
    # BLEU was measured at 100 and at 120: the nearest is told with its step.
    assert panel(page, "BLEU").locator("b").get_attribute("data-at") == " at 120"
    hairs = page.locator(".hair:visible")
    assert hairs.count() == page.locator(".panel").count()
    page.mouse.move(2, 2)
    assert (values(loss), values(power)) == at_the_end
    assert hairs.count() == 0
    assert page.troubles == []


def test_pointing_at_what_happened_tells_it(opened):
    page = opened(rich_run())
    lanes = page.locator(".lanes")
    point_at(page, lanes, 150 / 200)
    assert "loss spike" in lanes.locator(".told").inner_text()
    assert "checkpoint, 731 MB" in lanes.locator(".told").inner_text()
    for step, words in ((30, "found: bound by"), (90, "no longer holds: bound by")):
        point_at(page, lanes, step / 200)
        assert f"step {step}: {words} the network" in lanes.locator(".told").inner_text()


def test_arrow_keys_go_along(opened):
    page = opened(rich_run())
    page.locator(".stack").nth(1).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    loss = panel(page, "Loss")
    assert loss.locator(".when").inner_text() == "step 2"
    assert values(loss)[0] == f"training {loss_at(2):.3f}"
    page.keyboard.press("Escape")
    assert loss.locator(".when").inner_text() == "at the end"


def test_a_finger_reads_values_too(opened):
    page = opened(rich_run(), 400, touch=True)
    field = panel(page, "Loss").locator(".field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.touchscreen.tap(box["x"] + 0.25 * box["width"], box["y"] + 50)
    assert values(panel(page, "Loss"))[0] == f"training {loss_at(50):.3f}"
    assert overflow(page) == 0


def test_without_script_the_page_is_whole(opened):
    page = opened(rich_run(), script=False)
    assert values(panel(page, "Loss"))[0] == f"training {loss_at(200):.3f}"
    assert panel(page, "Loss").locator(".mark").is_visible()
    assert page.locator(".lane .shape").first.get_attribute("title").startswith("step 20:")


def test_what_others_wrote_takes_nothing_over(opened):
    run = rich_run(
        hosts=[EVIL, "beta"],
        path=Path("runs") / EVIL.replace("/", ""),
        samples={200: (Sample(EVIL, EVIL, EVIL),)},
        config={EVIL: {EVIL: EVIL}},
    )
    warning = replace(run, warnings=tuple(with_message(w, EVIL) for w in run.warnings))
    page = opened(warning)
    point_at(page, panel(page, "Loss"), 0.6)
    assert page.troubles == []
    assert page.locator("main img").count() == 0
    assert page.locator("script").count() == 1
    assert EVIL in page.locator(".node").first.inner_text()


def with_message(event, message):
    return type(event)(time=event.time, step=event.step, message=message)


@pytest.mark.parametrize("name", ["imported-1", "run-1"])
def test_runs_of_others_and_old_ones_have_no_empty_panel(opened, name):
    page = opened(read_run(GOLDEN / name), 400)
    assert page.troubles == []
    assert overflow(page) == 0
    assert page.locator(".panel").count() >= 3
    for one in page.locator(".panel svg").all():
        assert one.locator("path.curve, path.layer").count() > 0
