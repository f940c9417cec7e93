"""`make pictures`: train a small model, and picture its report page and `unisono watch`.

Writes report.png (headless Chromium, light theme, 1280 pixels wide) and watch.svg (the page of
the terminal as rich draws it) beside this file. The picture of the report leaves out evidence
and charts and ends after the first answers. Needs Chromium, and two cores for a few minutes.

    python docs/images/make_pictures.py [DIRECTORY]

A DIRECTORY keeps corpus and run. If it holds a finished run, only report.png is made again.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

import unisono
from unisono.errors import DataError
from unisono.live.page import page
from unisono.live.window import now_of
from unisono.records.follow import Follower
from unisono.report.page import write_report

HERE = Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "configs" / "demo.toml"
RUN = Path("runs/demo")
STEPS, PAIRS, HELD_OUT = 360, 40_000, 200
SETTINGS = {
    "train.max_steps": STEPS,
    "schedule.total_steps": STEPS,
    "validation.every_steps": 60,
    "checkpoint.every_steps": 180,
}
COLUMNS, WIDTH, MARGIN = 104, 1280, 12
ANSWERS = 4  # in the picture of the report
LEFT_OUT = "h3.under, .intro.close, .nodes, .stack, .evidence { display: none !important; }"
PICTURED = 0.7  # of the updates, when `unisono watch` is pictured


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(sys.argv[1] if len(sys.argv) > 1 else scratch)
        home.mkdir(exist_ok=True)
        os.chdir(home)
        if not (RUN / "bundle").is_dir():
            (HERE / "watch.svg").write_text(train(), "utf-8")
        write_report(RUN)
        picture_report(RUN / "report.html", HERE / "report.png")
        os.chdir(HERE)


def train() -> str:
    """Train with two processes; return the page of `unisono watch` on the way, as SVG."""
    unisono.get_corpus("builtin", pairs=PAIRS, held_out=HELD_OUT)
    unisono.prepare(DEMO)
    changes = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "unisono", "launch", "--workers", "2", str(DEMO), *changes]
    shown = ""
    with subprocess.Popen(command) as training:
        while training.poll() is None:
            time.sleep(0.5)
            shown = shown or look()
    if training.returncode:
        sys.exit(f"training ended with code {training.returncode}")
    return shown


def look() -> str:
    """Return the page of `unisono watch` if the run has come far enough, else nothing."""
    try:
        follower = Follower(RUN)
    except DataError:  # it has not begun
        return ""
    view = follower.look()
    if not view.steps or view.steps[-1].step < PICTURED * STEPS or view.ends:
        return ""
    console = Console(record=True, width=COLUMNS, file=StringIO(), highlight=False)
    console.print(page(RUN, view, follower.outline, now_of(view, time.time()), COLUMNS))
    drawn = console.export_svg(title=f"unisono watch {RUN}", theme=DEFAULT_TERMINAL_THEME)
    # Fonts from elsewhere: whoever looks at the picture should not have to ask for them.
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", drawn, flags=re.DOTALL)


def picture_report(html: Path, picture: Path) -> None:
    """Write the telling part of a report page as a picture: figures, time bar, answers."""
    with browser() as chromium:
        window = chromium.new_page(
            viewport={"width": WIDTH, "height": 1000}, color_scheme="light"
        )
        window.goto(html.resolve().as_uri())
        window.add_style_tag(content=LEFT_OUT)
        last = window.locator("article[id]").nth(ANSWERS - 1).bounding_box()
        if last is None:
            sys.exit("the page shows no answers")
        part = {"x": 0, "y": 0, "width": WIDTH, "height": last["y"] + last["height"] + MARGIN}
        window.screenshot(path=picture, clip=part, full_page=True)
    with Image.open(picture) as drawn:  # 256 colours: a third of the bytes
        few = drawn.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(picture, optimize=True)


@contextmanager
def browser() -> Iterator:
    """Start Chromium and end it afterwards."""
    place = shutil.which("chromium") or shutil.which("google-chrome")
    if place is None:
        sys.exit("there is no Chromium here; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=place, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


if __name__ == "__main__":
    main()
