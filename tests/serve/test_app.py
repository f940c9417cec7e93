"""A real server speaks LibreTranslate's protocol, to requests as its clients send them."""

import json

import pytest

from serve.running import EN_DE, ask
from unisono.serve.settings import MOST_ALTERNATIVES

pytestmark = pytest.mark.ranks


def test_a_text_is_translated_as_translate_does_it(server, english_to_german):
    [expected] = english_to_german(["to be or not to be"])
    assert expected
    assert server.translate("to be or not to be") == expected
    status, answer = server.post_form("/translate", q="to be or not to be", **EN_DE)
    assert (status, answer) == (200, {"translatedText": expected})


def test_a_list_gives_a_list(server, english_to_german):
    lines = ["to be", "or", "not"]
    assert server.translate(lines) == english_to_german(lines)
    assert server.translate([]) == []


def test_paragraphs_and_line_breaks_are_kept(server, english_to_german):
    one, two, three = english_to_german(["A b c.", "D e f!", "Never again"])
    text = "A b c. D e f!\n\n  Never again\n"
    assert server.translate(text) == f"{one} {two}\n\n  {three}\n"


def test_markup_survives_and_its_text_is_translated(server, english_to_german):
    [expected] = english_to_german(["to be"])
    found = server.translate('<p class="x">to be</p><br/>', format="html")
    assert found.startswith('<p class="x">')
    assert found.endswith("</p><br/>")
    assert found != '<p class="x">to be</p><br/>'
    assert len(found) >= len(expected) + len('<p class="x"></p><br/>')


def test_nothing_to_translate_comes_back_as_it_is(server):
    for text in ("", " ", "\n\n", "123"):
        assert server.translate(text) == text


def test_alternatives_differ_from_the_best_and_from_each_other(server):
    status, answer = server.post("/translate", q="to be or not", alternatives=3, **EN_DE)
    assert status == 200
    found = answer["alternatives"]
    assert 0 < len(found) <= 3
    assert len({answer["translatedText"], *found}) == len(found) + 1


def test_each_sentence_says_how_sure_it_is(server):
    fields = {"q": "To be. To be. Or not!", "alternatives": 2, "sentences": True}
    _, answer = server.post("/translate", **fields, **EN_DE)
    assert [one["source"] for one in answer["sentences"]] == ["To be.", "To be.", "Or not!"]
    joined = " ".join(one["text"] for one in answer["sentences"])
    assert joined == answer["translatedText"]
    for one in answer["sentences"]:
        shares = [one["confidence"], *(other["confidence"] for other in one["alternatives"])]
        assert all(0 < share < 1 for share in shares)


def test_languages_have_targets_and_names(server):
    assert server.get("/languages") == (
        200,
        [
            {"code": "de", "name": "German", "targets": ["en"]},
            {"code": "en", "name": "English", "targets": ["de"]},
        ],
    )


def test_the_source_is_detected(server):
    text = "This is an English sentence that everybody understands."
    status, answer = server.post("/translate", q=text, source="auto", target="de")
    assert status == 200
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["detectedLanguage"]["confidence"] > 50
    german = "Das ist ein deutscher Satz, den jeder sofort versteht."
    assert server.post("/detect", q=german)[1][0]["language"] == "de"
    assert server.post_form("/detect", q=text)[1][0]["language"] == "en"


def test_a_language_may_name_its_country(server):
    found = server.translate("to be", source="en-US", target="de_AT")
    assert found == server.translate("to be")


def test_settings_and_health_are_there_for_web_pages_and_supervisors(server):
    assert server.get("/health") == (200, {"status": "ok", "models": 2})
    status, settings = server.get("/frontend/settings")
    assert status == 200
    assert settings["keyRequired"] is False
    assert settings["charLimit"] > 0
    assert settings["language"]["source"]["code"] == "en"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "en", "target": "de"}, "missing q"),
        ({"q": None, "source": "en", "target": "de"}, "missing q"),
        ({"q": 5, "source": "en", "target": "de"}, "neither a text nor a list"),
        ({"q": ["a", 5], "source": "en", "target": "de"}, "neither a text nor a list"),
        ({"q": "a", "target": "de"}, "missing source"),
        ({"q": "a", "source": "en"}, "missing target"),
        ({"q": "a", "source": "en", "target": ["de"]}, "target is not a short text"),
        ({"q": "a", "source": "xx", "target": "de"}, "xx is not supported"),
        ({"q": "a", "source": "en", "target": "xx"}, "xx is not supported"),
        ({"q": "a", "source": "en", "target": "en"}, "en is not available as a target"),
        ({"q": "a", "format": "pdf", **EN_DE}, "neither text nor html"),
        ({"q": "a", "alternatives": MOST_ALTERNATIVES + 1, **EN_DE}, "alternatives"),
        ({"q": "a", "alternatives": "many", **EN_DE}, "alternatives"),
        ({"q": "a" * 100_001, **EN_DE}, "exceed the text limit"),
        ({"q": ["a"] * 101, **EN_DE}, "101 texts exceed"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_with_what_is_wrong(server, fields, words):
    status, answer = server.post("/translate", **fields)
    assert status == 400
    assert words in answer["error"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"\xff\xfe", "application/json", 400),
        (b'{"q": "\xff"}', "application/json", 400),
        (b"q=%ff&source=en&target=de", "application/x-www-form-urlencoded", 400),
        (b"q=\xff", "application/x-www-form-urlencoded", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"q": "\\ud800", "source": "en", "target": "de"}', "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"", "application/json", 400),
        (b"&".join(b"a=1" for _ in range(1000)), "application/x-www-form-urlencoded", 400),
        (b"--x", "multipart/form-data; boundary=x", 415),
        (b"x" * 2_000_001, "application/json", 413),
    ],
)
def test_a_body_that_is_none_is_an_error_and_hurts_nobody(server, body, kind, status):
    found, answer = ask(server.url + "/translate", body, kind)
    assert found == status
    assert answer["error"]
    assert server.get("/health")[0] == 200


def test_unknown_paths_and_methods_are_errors_in_json(server):
    assert server.get("/nowhere") == (404, {"error": "Not Found"})
    assert server.get("/translate") == (405, {"error": "Method Not Allowed"})
    assert server.post("/languages")[0] == 405


def test_mastodon(server):
    """A list as HTML, the language detected; each text gets its language."""
    fields = {"q": ["<p>to be</p>", "or not"], "source": "auto", "target": "de"}
    status, answer = server.post("/translate", **fields, format="html", api_key="")
    assert status == 200
    assert [len(answer[name]) for name in ("translatedText", "detectedLanguage")] == [2, 2]
    assert answer["detectedLanguage"][0]["language"] in ("en", "de")
    assert answer["translatedText"][0].startswith("<p>")


def test_searxng(server):
    """JSON with three alternatives and no format."""
    body = json.dumps({"q": "to be", "source": "en", "target": "de", "alternatives": 3})
    status, answer = ask(server.url + "/translate", body.encode(), "application/json")
    assert status == 200
    assert isinstance(answer["translatedText"], str)
    assert isinstance(answer["alternatives"], list)


def test_omegat(server):
    """JSON with a charset, text as its format, no key."""
    fields = {"q": "to be", "source": "en", "target": "de", "format": "text"}
    body, kind = json.dumps(fields).encode(), "application/json; charset=UTF-8"
    status, answer = ask(server.url + "/translate", body, kind, {"Accept": "application/json"})
    assert (status, set(answer)) == (200, {"translatedText"})


def test_metrics_count_and_hold_no_text(server):
    before = server.metric("unisono_characters_total")
    server.translate("secretive")
    assert server.metric("unisono_characters_total") == before + len("secretive")
    page = ask(server.url + "/metrics", raw=True)
    assert 'unisono_requests_total{path="/translate",status="200"}' in page
    assert "secretive" not in page
