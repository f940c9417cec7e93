"""The page: one file, nothing from elsewhere, nothing of the run unescaped."""

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from diagnose.made_runs import (
    BEGAN,
    CONFIG,
    CORPUS,
    curve,
    healthy_run,
    now,
    sample,
    scored,
    start,
    step,
    team,
)
from unisono.diagnose.diagnosis import diagnose
from unisono.records.events import Warned
from unisono.records.view import RunView
from unisono.report import page
from unisono.report.page import coded, render_html
from unisono.report.text import render_markdown

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'`"


class Elements(HTMLParser):
    """Collects the elements of a page and checks that they close."""

    VOID = frozenset(["meta", "br", "img", "link"])

    def __init__(self):
        super().__init__()
        self.names, self.attributes, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(run, at=None):
    return render_html(diagnose(run, now() if at is None else at), run)


def elements_of(html):
    elements = Elements()
    elements.feed(html)
    elements.close()
    assert elements.open == []
    return elements


def evil_run():
    """A run that carries markup wherever text of others can stand."""
    corpus = {
        **CORPUS,
        "source_language": EVIL,
        "dropped": {EVIL: {"count": 5, "examples": [[EVIL, EVIL]]}},
        "inputs": [{"split": "train", "source": {"name": EVIL, "lines": 3}, "target": {}}],
    }
    run = team(lambda rank, n: {"exchange": 0.5}, [EVIL, "b"])
    return replace(
        run,
        path=Path("runs") / EVIL.replace("/", ""),
        config={**CONFIG, "data": {"train": EVIL}, EVIL: {EVIL: [EVIL]}},
        environment={"host": EVIL, EVIL: [EVIL]},
        corpus=corpus,
        samples={20: (sample(EVIL, EVIL, EVIL),)},
        warnings=(Warned(time=BEGAN, step=1, message=EVIL),),
    )


def test_markup_of_others_stays_text():
    html = page_of(evil_run())
    elements = elements_of(html)
    assert "img" not in elements.names
    assert elements.names.count("script") == 1
    assert html.count("</script>") == 1
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_markdown_of_others_stays_text():
    run = evil_run()
    text = render_markdown(diagnose(run, now()), run)
    assert not re.search(r"(?<!\\)<", re.sub(r"`[^`\n]+`", "", text))


def test_code_is_marked_after_escaping():
    assert coded("set `a<b` to 5 %") == "set <code>a&lt;b</code> to 5&nbsp;%"


def test_the_page_loads_nothing_from_elsewhere():
    html = page_of(healthy_run(samples={20: (sample(),)}, tests=(scored(),)))
    elements = elements_of(html)
    assert not {"link", "img", "iframe", "object"} & set(elements.names)
    assert not [value for name, value in elements.attributes if name in ("src", "href")]
    assert not re.search(r"https?:|url\(|@import|//[a-z]", html)
    assert "default-src 'none'" in html


def test_only_our_own_script_may_run():
    html = page_of(evil_run())
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    told = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{told}';" in html
    assert script == (Path(page.__file__).parent / "page.js").read_text("utf-8")


def test_the_page_shows_all_there_is():
    samples = {
        20: (sample(translation="der der"),),
        100: (sample(translation="ein Hause"),),
        200: (sample(),),
    }
    html = page_of(healthy_run(samples=samples, tests=(scored(bleu=21.4),)))
    for answer in diagnose(healthy_run(), now()).answers:
        assert answer.question in html
    assert html.count("<svg") == 5  # loss, BLEU, rate, step time, parts
    for text in (
        "der der",
        "ein Hause",
        "21.4",
        "best 2.500 at 20",
        "train.en",
        "warmup_steps",
    ):
        assert text in html
    assert html.index("der der") < html.index("ein Hause") < html.index('class="final"')


@pytest.mark.parametrize(
    "run",
    [
        RunView(path=Path("x")),
        RunView(path=Path("x"), config=CONFIG, starts=(start(),)),
        healthy_run(steps=1, validations=(), saves=(), ends=()),
        healthy_run(corpus={}, environment={}),
        healthy_run(validations=curve([float("nan"), 3.0, float("nan")])),
        healthy_run(ranks={0: tuple(step(n, loss=float("nan")) for n in range(1, 9))}),
        healthy_run(ranks={0: tuple(step(n, seconds=0.0) for n in range(1, 9))}),
        healthy_run(starts=(start(), start(step=100, time=BEGAN + 100.9))),
    ],
)
def test_torn_runs_make_whole_pages(run):
    html = page_of(run)
    elements_of(html)
    for place in re.findall(r'(?: d|style|transform)="([^"]*)"', html.lower()):
        assert "nan" not in place
        assert "inf" not in place
    assert render_markdown(diagnose(run, now()), run).startswith("# ")


def test_a_long_run_makes_a_small_page():
    run = healthy_run(steps=20_000)
    large = page_of(run, BEGAN + 20_001)
    assert len(large.encode()) < 150_000
    for path in re.findall(r' d="([^"]*)"', large):
        assert path.count("L") <= 400


def test_markdown_holds_headline_shares_and_answers():
    run = healthy_run()
    report = diagnose(run, now())
    text = render_markdown(report, run)
    assert text.startswith("# made\n\n**Finished after")
    assert text.count("\n### ") == 11
    assert "arithmetic 90 %" in text
