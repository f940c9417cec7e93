"""The pictures of the docs: there, small, shown somewhere, and made by a script."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LARGEST_BYTES = 300_000


@pytest.mark.parametrize("name", ["report.png", "watch.svg"])
def test_a_picture_is_there_small_and_shown(name):
    assert 2_000 < (IMAGES / name).stat().st_size < LARGEST_BYTES
    shown = re.compile(rf"[(\"](?:[./]*docs/)?[./]*images/{re.escape(name)}[)\"]")
    assert any(shown.search(page.read_text("utf-8")) for page in PAGES)


def test_every_picture_is_made_by_make_pictures():
    script = (IMAGES / "make_pictures.py").read_text("utf-8")
    for picture in IMAGES.iterdir():
        if picture.suffix in (".png", ".svg"):
            assert f'"{picture.name}"' in script
    assert "docs/images/make_pictures.py" in (ROOT / "Makefile").read_text("utf-8")


def test_a_picture_names_no_place_of_a_machine_and_loads_nothing():
    text = (IMAGES / "watch.svg").read_text("utf-8")
    assert "/tmp/" not in text
    assert "/home/" not in text
    assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}
