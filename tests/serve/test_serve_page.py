"""The web page, in a real browser, from a real server."""

import pytest

from report.browser import overflow

pytestmark = pytest.mark.ranks


@pytest.fixture
def opened(browser, server):
    """Open the page; `troubles` is what goes wrong in it, `asked` what it asks for."""
    contexts = []

    def opening(width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.troubles, page.asked = [], []
        page.on("console", lambda message: page.troubles.append(message.text))
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(server.url)
        page.locator("#target option").first.wait_for(state="attached")
        return page

    yield opening
    for context in contexts:
        context.close()


def translated(page, text):
    page.locator("#text").fill(text)
    page.locator("#text").press("Control+Enter")
    page.locator("#output .one").first.wait_for(state="attached")
    return page.locator("#output").text_content()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_text_is_translated_and_nobody_else_is_asked(opened, server, width, scheme):
    page = opened(width, scheme)
    text = "To be or not to be. That is it!\n\nto be"
    assert translated(page, text) == server.translate(text)
    assert page.locator("#output .one").count() == 3
    assert "Least sure sentence: " in page.locator("#status").text_content()
    assert overflow(page) == 0
    assert page.troubles == []
    assert all(url.startswith(server.url) for url in page.asked)


def test_a_sentence_begins_on_the_line_on_which_the_one_before_it_ends(opened):
    page = opened(400)
    translated(page, "To be or not. That is it!")
    first, second = page.evaluate(
        """[...document.querySelectorAll("#output .one")].map((one) => {
             one.textContent = "ein Wort ".repeat(13).trim();
             return one;
           }).map((one) => [...one.getClientRects()].map((line) => line.top))"""
    )
    assert len(first) > 1
    assert second[0] == first[-1]


def test_typing_alone_translates_after_a_pause(opened, server):
    page = opened()
    page.locator("#text").press_sequentially("to be")
    page.locator("#output .one").first.wait_for(state="attached")
    assert page.locator("#output").text_content() == server.translate("to be")
    assert "5 of 100,000 characters" in page.locator("#count").text_content()


def test_the_keyboard_reaches_a_sentence_its_alternatives_and_the_copy(opened):
    page = opened()
    before = translated(page, "To be or not. That is it!")
    page.locator("#output .one").first.focus()
    page.keyboard.press("Enter")
    page.locator("#details").wait_for()
    assert page.locator("#sentence").text_content() == "To be or not."
    assert page.locator("#sure-label").text_content().endswith("% sure")
    other = page.locator("#alternatives button span").first.text_content()
    page.locator("#alternatives button").first.focus()
    page.keyboard.press("Enter")
    after = page.locator("#output").text_content()
    assert after != before
    assert after.startswith(other)
    page.keyboard.press("Alt+c")
    page.wait_for_function("document.getElementById('status').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == after
    page.keyboard.press("Escape")
    assert page.locator("#details").is_hidden()


def test_languages_swap_and_errors_are_shown(opened, server):
    page = opened()
    translated(page, "to be")
    page.keyboard.press("Alt+s")
    assert page.locator("#source").input_value() == "de"
    assert page.locator("#target").input_value() == "en"
    page.locator("#text").fill("x" * 100_001)
    page.locator("#translate").click()
    page.locator("#status.error").wait_for()
    assert "exceed the text limit" in page.locator("#status").text_content()


def test_a_translation_is_text_never_markup(opened):
    page = opened()
    page.locator("#text").fill('<img src=x onerror="alert(1)"><b>to be</b>')
    page.locator("#text").press("Control+Enter")
    page.locator("#output .one").first.wait_for(state="attached")
    assert page.locator("#output img, #output b").count() == 0
    assert page.troubles == []
