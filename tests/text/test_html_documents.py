"""HTML pages: whatever a translation is, the markup comes out as it was.

Pages are generated, and read back by the standard library's parser, which is not what we use.
"""

import random
from collections import Counter
from html.parser import HTMLParser

import pytest

from unisono.text.documents import plan_document
from unisono.text.html_tokens import VOID, html_tokens

WORDS = [
    "house",
    "tree",
    "walks",
    "red",
    "big",
    "slowly",
    "Anna",
    "Berlin,",
    "when",
    "rain",
    "falls:",
    "nobody",
    "sees",
    "it",
]
INLINE = ["b", "i", "em", "strong", "span", "a", "u", "small"]
ATTRIBUTES = ["", ' class="x y"', ' href="/a?b=1&amp;c=2"', " title='a > b'", " hidden"]
ENTITIES = ["&amp;", "&lt;", "&gt;", "&copy;", "&euro;", "&nbsp;", "&#8594;", "&#x2665;"]
LETTERS = ["caf&eacute;", "na&#239;ve", "&Uuml;ber", "don&#39;t", "&quot;so&quot;"]


class Page(HTMLParser):
    """Reads a page: its markup, its entities, its texts, and whether tags are nested."""

    def __init__(self, page):
        super().__init__(convert_charrefs=False)
        self.markup, self.entities, self.texts = Counter(), Counter(), []
        self.open, self.nested = [], True
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.markup[self.get_starttag_text()] += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.markup[f"</{tag}>"] += 1
        self.nested &= bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        self.markup[f"<!--{data}-->"] += 1

    def handle_decl(self, data):
        self.markup[data] += 1

    def handle_entityref(self, name):
        self.entities[f"&{name};"] += 1

    def handle_charref(self, name):
        self.entities[f"&#{name};"] += 1


def generated(seed):
    generator = random.Random(seed)
    blocks = [block(generator) for _ in range(generator.randint(1, 6))]
    return "<!DOCTYPE html>\n<html><body>\n" + "\n".join(blocks) + "\n</body></html>\n"


def block(generator):
    kinds = [
        lambda: f"<p{generator.choice(ATTRIBUTES)}>{sentences(generator)}</p>",
        lambda: (
            f"<ul>\n  <li>{sentences(generator)}</li>\n  <li>{sentences(generator)}</li></ul>"
        ),
        lambda: f"<table><tr><td>{inline(generator, 2)}</td><td>12</td></tr></table>",
        lambda: "<script>if (a < b && c) { say('<p>Hello.</p>'); }</script>",
        lambda: "<style>p > a { color: red }</style><!-- a comment. With <b>tags</b>. -->",
        lambda: f"<div class='box notranslate'>{sentences(generator)}</div>",
        lambda: f"<pre>  {inline(generator, 1)}\n    {inline(generator, 1)}</pre>",
        lambda: f"<div><h2>{inline(generator, 2)}</h2>{sentences(generator)}<br>Bye.</div>",
    ]
    return generator.choice(kinds)()


def sentences(generator):
    count = generator.randint(1, 4)
    return generator.choice([" ", "\n  "]).join(
        inline(generator, 3).strip() + generator.choice(".?!") for _ in range(count)
    )


def inline(generator, depth):
    parts = []
    for _ in range(generator.randint(2, 6)):
        roll = generator.random()
        if roll < 0.5 or not depth:
            parts.append(" ".join(generator.choices(WORDS, k=generator.randint(1, 4))))
        elif roll < 0.6:
            parts.append(generator.choice(ENTITIES))
        elif roll < 0.7:
            parts.append(generator.choice(LETTERS))
        elif roll < 0.75:
            parts.append(
                generator.choice(["<img src=a.png alt='A. B'>", "<!--x-->", "<b></b>"])
            )
        elif roll < 0.8:
            parts.append(generator.choice([FIXED, "<code>f(a.B)</code>"]))
        else:
            tag = generator.choice(INLINE)
            inside = inline(generator, depth - 1)
            parts.append(f"<{tag}{generator.choice(ATTRIBUTES)}>{inside}</{tag}>")
    return generator.choice([" ", " ", ""]).join(parts)


FIXED = '<span translate="no">Unisono</span>'


def shouted(sentence, seed):
    return sentence.upper()


def reversed_words(sentence, seed):
    return " ".join(reversed(sentence.split()))


def other_words(sentence, seed):
    generator = random.Random(f"{seed} {sentence}")
    return " ".join(
        generator.choices(["das", "Haus", "läuft", "<&>"], k=generator.randint(0, 9))
    )


def nothing(sentence, seed):
    return ""


def up_to_60(sentence):
    return len(sentence) <= 60


TRANSLATIONS = [shouted, reversed_words, other_words, nothing]


@pytest.mark.parametrize("translate", TRANSLATIONS, ids=lambda function: function.__name__)
def test_markup_survives_in_200_made_pages_of_200(translate):
    survived = 0
    for seed in range(200):
        page = generated(seed)
        document = plan_document(page, markup=True, language="en", fits=up_to_60)
        result = document.assemble([translate(s, seed) for s in document.sentences])
        before, after = Page(page), Page(result)
        assert before.nested
        assert after.markup == before.markup, page
        assert after.nested, result
        for entity in ENTITIES:
            extra = after.entities[entity] - before.entities[entity]
            assert extra == 0 or (translate is other_words and extra > 0), (entity, page)
        assert result.count(">Unisono<") == page.count(">Unisono<")
        assert result.count("<code>f(a.B)</code>") == page.count("<code>f(a.B)</code>")
        survived += 1
    assert survived == 200


def test_an_unchanged_translation_gives_the_same_bytes():
    for seed in range(200):
        page = generated(seed)
        document = plan_document(page, markup=True, language="en", fits=up_to_60)
        assert document.assemble(document.sentences) == page


def test_all_words_are_translated_and_no_others():
    page = "<p title='a b'>One <b>two.</b> Three <i>four <code>five</code></i><br>six</p>"
    document = plan_document(page, markup=True, language="en", fits=up_to_60)
    assert document.assemble([s.upper() for s in document.sentences]) == (
        "<p title='a b'>ONE <b>TWO.</b> THREE <i>FOUR <code>five</code></i><br>SIX</p>"
    )


def translated(page, translations, language="en"):
    document = plan_document(page, markup=True, language=language, fits=lambda _: True)
    return document.assemble([translations.get(s, s) for s in document.sentences])


def test_tags_go_where_the_translation_of_their_words_is():
    said = {
        "I saw the red house yesterday.": "Gestern sah ich das rote Haus.",
        "the red house": "das rote Haus",
        "yesterday": "gestern",
    }
    page = '<p>I saw <a href="/h">the red house</a> <b>yesterday</b>.</p>'
    assert translated(page, said) == (
        '<p><b>Gestern</b> sah ich <a href="/h">das rote Haus</a>.</p>'
    )


def test_tags_inside_of_tags_stay_inside():
    said = {
        "It is the very red house.": "Es ist das sehr rote Haus.",
        "the very red house": "das sehr rote Haus",
        "very": "sehr",
    }
    page = "<p>It is <a>the <i>very</i> red house</a>.</p>"
    assert translated(page, said) == "<p>Es ist <a>das <i>sehr</i> rote Haus</a>.</p>"


def test_what_must_not_be_translated_is_found_in_the_translation():
    page = "<p>Welcome to <span class=notranslate>Red House</span>!</p>"
    said = {"Welcome to Red House!": "Willkommen bei Red House!"}
    assert translated(page, said) == (
        "<p>Willkommen bei <span class=notranslate>Red House</span>!</p>"
    )


def test_what_a_translation_lacks_is_kept_by_translating_around_it():
    page = "<p>Welcome to <span class=notranslate>Red House</span>, friends!</p>"
    said = {
        "Welcome to Red House, friends!": "Willkommen im Roten Haus!",
        "Welcome to": "Willkommen bei",
        ", friends!": ", Freunde!",
    }
    assert translated(page, said) == (
        "<p>Willkommen bei <span class=notranslate>Red House</span>, Freunde!</p>"
    )


def test_translate_yes_inside_of_translate_no_is_translated():
    page = '<div translate="no">One <p translate="yes">Two</p> Three</div> Four'
    assert plan_document(page, markup=True, language="en", fits=lambda _: True).sentences == (
        "Two",
        "Four",
    )


def test_a_paragraph_without_an_end_tag_ends_at_the_next_one():
    page = "<p translate=no>One<p>Two<ul><li class=notranslate><p>Three<li>Four</ul>"
    assert plan_document(page, markup=True, language="en", fits=lambda _: True).sentences == (
        "Two",
        "Four",
    )


def test_a_translation_cannot_smuggle_in_markup():
    page = "<p>Say it.</p>"
    result = translated(page, {"Say it.": "<script>x</script> & co"})
    assert result == "<p>&lt;script&gt;x&lt;/script&gt; &amp; co</p>"


@pytest.mark.parametrize(
    "page",
    [
        "a < b and c > d",
        "<a href='never closed",
        "<!-- never closed <b>",
        "<script>never closed",
        "</b></i>stray <b>misnested<i></b></i>",
        "<title>Hello &amp; bye</title><textarea>a\nb</textarea>",
        "<b" * 50,
        "&&amp;&bogus;&#0;&#99999999;&NotEqualTilde;",
        "<" * 100,
        "<p>x<![CDATA[ y ]]><?php z ?><!---->",
        "<b>" * 3000 + "Deep words here" + "</b>" * 3000,
        "word " + "<b>" * 3000 + "deep" + "</b>" * 3000 + " words.",
    ],
)
def test_damaged_pages_keep_what_they_have(page):
    tokens = list(html_tokens(page))
    assert "".join(page[token.start : token.end] for token in tokens) == page
    document = plan_document(page, markup=True, language="en", fits=lambda _: True)
    assert document.assemble(document.sentences) == page
    shouts = document.assemble([s.upper() for s in document.sentences])
    assert shouts.upper() == page.upper() or "&" in page


def test_a_large_page_takes_linear_time():
    once = "<b>Hello</b> to <i>you</i> &amp; me, a < b. " * 500
    document = plan_document(once * 4, markup=True, language="en", fits=lambda _: True)
    assert document.assemble(document.sentences) == once * 4
