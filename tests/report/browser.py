"""A real browser, and how to look at a page in it."""

import re
import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def overflow(page):
    """How many pixels the page is wider than the window."""
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def text_of(page, selector):
    return " ".join(page.locator(selector).first.inner_text().split())


def panel(page, title):
    return page.locator(".panel", has=page.locator(".title", has_text=re.compile(f"^{title}")))


def values(one):
    """The names and values that a panel shows, in its order."""
    return [" ".join(text.split()) for text in one.locator(".value").all_inner_texts()]


def point_at(page, one, share):
    """Put the mouse over a panel, at this share of its width."""
    field = one.locator(".field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
