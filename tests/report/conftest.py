"""Pages opened in a real browser, for the tests that want one."""

import pytest


@pytest.fixture
def shown(browser, tmp_path):
    """Open a page; whatever goes wrong in it is in `troubles`, what it asks for in `asked`."""
    contexts = []

    def showing(html, width=1280, scheme="light", script=True, touch=False):
        file = tmp_path / "page.html"
        file.write_text(html, "utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=script,
            has_touch=touch,
        )
        contexts.append(context)
        page = context.new_page()
        page.troubles, page.asked = [], []
        page.on("console", lambda message: page.troubles.append(message.text))
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("dialog", lambda dialog: page.troubles.append(dialog.message))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(file.as_uri())
        return page

    yield showing
    for context in contexts:
        context.close()
