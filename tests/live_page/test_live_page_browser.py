"""The live page in a real browser, beside a run that really goes on."""

import re
import signal
from urllib.parse import urlsplit

import pytest

from live_page.made_files import write_run
from live_page.running import RunningPage, training, write_config
from report.browser import overflow, panel, point_at, text_of, values
from report.rich_run import rich_run

pytestmark = pytest.mark.ranks

PATIENCE = 240_000  # milliseconds: the machine may be busy


@pytest.fixture
def opened(browser):
    """Open a link; whatever goes wrong in the page is in `troubles`."""
    contexts = []

    def opening(link, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.troubles, page.asked = [], []
        page.on("console", lambda message: page.troubles.append(message.text))
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(link)
        return page

    yield opening
    for context in contexts:
        context.close()


def step_of(page):
    found = re.search(r"step ([\d,]+)", text_of(page, ".way"))
    return int(found[1].replace(",", ""))


def wait_for_step(page, step):
    page.wait_for_function(
        "least => Number(document.querySelector('.way')?.textContent"
        ".match(/step ([\\d,]+)/)?.[1].replaceAll(',', '') ?? 0) >= least",
        arg=step,
    )


def wait_for_state(page, state):
    page.locator(".state .badge", has_text=state).first.wait_for()


def answers(page):
    return page.locator("#run-0 [data-part$='/answers'] .card")


def open_evidence(page):
    """See that the whole run is accounted for, and open the evidence of the first answer."""
    panel(page, "Over the run").wait_for()
    page.get_by_text("of machines; of it").wait_for()
    assert answers(page).count() == 11
    answers(page).first.locator("summary").click()
    told = answers(page).first.inner_text()
    assert "The run is going on" in told
    assert "last event" in told
    return told


def evidence_stays_open(page, told):
    """Wait until the first answer is another one, and see that its evidence is still open."""
    page.wait_for_function(
        "told => document.querySelector('#run-0 [data-part$=answers] .card').innerText"
        " !== told",
        arg=told,
    )
    assert "last event" in answers(page).first.inner_text()


def test_a_run_is_followed_from_its_first_updates_over_its_end_and_a_restart(
    corpus_home, tmp_path, opened
):
    config = write_config(corpus_home, tmp_path, cost={"per_machine_hour": 3600.0})
    with training(config) as first, RunningPage(tmp_path / "run") as server:
        page = opened(server.link)
        wait_for_state(page, "running")
        wait_for_step(page, 40)
        page.locator(".verdict").wait_for()
        loss = panel(page, "Loss")
        loss.locator(".dots.second").wait_for()  # validations are drawn
        page.locator(".sample .final").first.wait_for()
        assert "cost so far" in text_of(page, ".figures")
        told = open_evidence(page)
        # Pointing at a chart goes on while it changes.
        point_at(page, loss, 0.5)
        step = step_of(page)
        said = text_of(loss, ".when")
        assert said.startswith("step")
        wait_for_step(page, step + 40)
        assert page.locator(".hair:visible").count() > 3
        evidence_stays_open(page, told)
        first.send_signal(signal.SIGTERM)
        wait_for_state(page, "stopped")
        stopped_at = step_of(page)
        assert "a signal asked it to stop" in text_of(page, ".ending")
        first.wait()
        with training(config):
            wait_for_state(page, "running")
            wait_for_step(page, stopped_at + 20)
            page.locator(".shape.start").first.wait_for(state="attached")
        wait_for_state(page, "failed")  # it was killed
        answers(page).filter(has_text="The run broke off").wait_for()
        assert overflow(page) == 0
        assert page.troubles == []
        assert {url.split("?")[0] for url in page.asked} == {
            server.link,
            server.link + "events",
        }
        assert values(loss)
        assert server.stop() == (0, "")
        page.locator("#news", has_text="No connection").wait_for()
        assert step_of(page) >= stopped_at  # what was shown last stays


def test_several_runs_are_compared_and_one_is_shown_in_full(tmp_path, opened):
    """One has a name that would be a script, in a page that took names for more than text."""
    evil = "<img src=x onerror=alert(1)>"
    paths = [write_run(tmp_path / name, rich_run()) for name in ("plain", evil)]
    with RunningPage(*paths) as server:
        page = opened(server.link, width=400, scheme="dark")
        panel(page, "Training loss").first.wait_for()
        rows = page.locator(".runs tbody tr")
        assert rows.count() == 2
        assert evil in rows.nth(1).inner_text()
        assert evil in page.title()
        shown = page.locator("article.run:visible")
        assert shown.locator("h1").inner_text() == "plain"
        assert "kWh" in shown.locator(".figures").inner_text()
        page.locator(".tabs a").nth(1).click()
        assert shown.locator("h1").inner_text() == evil
        assert page.locator("img").count() == 0
        shown.locator(".panel .title", has_text=re.compile("^Loss")).first.wait_for()
        assert overflow(page) == 0
        assert page.troubles == []


def test_a_link_with_a_token_leaves_no_token_in_the_address(tmp_path, opened):
    run = write_run(tmp_path / "run", rich_run())
    with RunningPage(run, "--host", "0.0.0.0") as server:
        token = server.link.partition("token=")[2]
        page = opened(f"http://127.0.0.1:{server.port}/?token={token}")
        page.locator(".verdict").wait_for()
        assert page.url == f"http://127.0.0.1:{server.port}/"
        assert token not in page.content() + page.evaluate("document.cookie")
        assert page.troubles == []
        port = server.port
    with RunningPage(run, "--host", "0.0.0.0", "--port", port) as again:
        # The same place, another token: the old page says where to go.
        page.locator("#news", has_text="open the link that it printed last").wait_for()
        page.goto(again.link.replace(urlsplit(again.link).hostname, "127.0.0.1"))
        page.locator(".verdict").wait_for()
        page.locator("#news").wait_for(state="hidden")
