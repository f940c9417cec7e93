"""German and English verb forms against tables written by hand."""

import pytest

from unisono.datasets.builtin.english import (
    Form,
    english_parts,
    participle_of,
    plural_of,
    third_person_of,
    with_article,
)
from unisono.datasets.builtin.german import infinitive_with_zu, verb_parts
from unisono.datasets.builtin.lexicon import BE, HAVE, VERB_GROUPS
from unisono.datasets.builtin.words import Person

TABLES = tuple(VERB_GROUPS.values())
EVERY_VERB = (*(verb for table in TABLES for verb in table), BE, HAVE)


def german(infinitive):
    return next(verb for verb in EVERY_VERB if verb.prefix + verb.infinitive == infinitive)


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("kaufen", "kaufe kaufst kauft kaufen kaufen"),
        ("sehen", "sehe siehst sieht sehen sehen"),
        ("lesen", "lese liest liest lesen lesen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("finden", "finde findest findet finden finden"),
        ("tanzen", "tanze tanzt tanzt tanzen tanzen"),
        ("grüßen", "grüße grüßt grüßt grüßen grüßen"),
        ("füttern", "füttere fütterst füttert füttern füttern"),
        ("einladen", "lade lädst lädt laden laden"),
        ("wissen", "weiß weißt weiß wissen wissen"),
        ("regnen", "regne regnest regnet regnen regnen"),
        ("sein", "bin bist ist sind sind"),
        ("haben", "habe hast hat haben haben"),
    ],
)
def test_present(infinitive, forms):
    assert german(infinitive).present == tuple(forms.split())


@pytest.mark.parametrize(
    ("infinitive", "form", "finite", "tail", "closing"),
    [
        ("anrufen", Form.PRESENT, "ruft", "an", "anruft"),
        ("anrufen", Form.PAST, "hat", "angerufen", "angerufen hat"),
        ("anrufen", Form.WANT, "will", "anrufen", "anrufen will"),
        ("anrufen", Form.FUTURE, "wird", "anrufen", "anrufen wird"),
        ("aufstehen", Form.PAST, "ist", "aufgestanden", "aufgestanden ist"),
        ("kaufen", Form.PROGRESSIVE, "kauft", "", "kauft"),
        ("sein", Form.PAST, "war", "", "war"),
        ("haben", Form.PAST, "hatte", "", "hatte"),
    ],
)
def test_the_parts_of_a_verb(infinitive, form, finite, tail, closing):
    parts = verb_parts(german(infinitive), form, Person.THIRD)
    assert (parts.finite, parts.tail, parts.closing) == (finite, tail, closing)


def test_zu_goes_inside_a_separable_verb():
    assert infinitive_with_zu(german("kaufen")) == "zu kaufen"
    assert infinitive_with_zu(german("anrufen")) == "anzurufen"


def test_a_participle_carries_its_prefix_and_usually_ge():
    without_ge = ("be", "ver", "er")
    for verb in EVERY_VERB:
        if verb.preterite:
            continue
        assert verb.participle.startswith(verb.prefix)
        stem = verb.participle.removeprefix(verb.prefix)
        bare = verb.infinitive.startswith(without_ge) or verb.infinitive.endswith("ieren")
        assert stem.startswith("ge") != bare, verb.participle


def test_past_and_present_never_look_alike():
    """English cut or put would have two translations."""
    for verb in EVERY_VERB:
        assert verb.past not in (verb.english, third_person_of(verb.english))


def test_no_verb_can_be_read_in_two_ways():
    """If one could sell and sell to, "sells her hats" would have two translations."""
    with_one = {verb.name for table in TABLES[:4] for verb in table}
    assert with_one.isdisjoint(verb.name for verb in VERB_GROUPS["with receiver"])
    for table in TABLES:
        assert len({verb.name for verb in table}) == len(table)


@pytest.mark.parametrize(
    ("verb", "third", "participle"),
    [
        ("buy", "buys", "buying"),
        ("carry", "carries", "carrying"),
        ("wash", "washes", "washing"),
        ("go", "goes", "going"),
        ("lie", "lies", "lying"),
        ("run", "runs", "running"),
        ("put", "puts", "putting"),
        ("dance", "dances", "dancing"),
        ("travel", "travels", "travelling"),
        ("play", "plays", "playing"),
    ],
)
def test_english_endings(verb, third, participle):
    assert (third_person_of(verb), participle_of(verb)) == (third, participle)


def test_english_modals_and_do():
    buy = german("kaufen")
    wants = english_parts(buy, Form.WANT, Person.THIRD)
    assert (wants.plain, wants.auxiliary, wants.rest) == ("wants to buy", "does", "want to buy")
    had = english_parts(buy, Form.HAD_TO, Person.FIRST)
    assert (had.plain, had.auxiliary, had.rest) == ("had to buy", "did", "have to buy")
    will = english_parts(buy, Form.FUTURE, Person.SECOND)
    assert (will.plain, will.auxiliary, will.rest) == ("will buy", "will", "buy")


def test_english_plurals_and_articles():
    singulars = ["city", "boy", "box", "church", "potato", "piano", "radio"]
    plurals = ["cities", "boys", "boxes", "churches", "potatoes", "pianos", "radios"]
    assert [plural_of(noun) for noun in singulars] == plurals
    assert with_article("old hat") == "an old hat"
    assert with_article("useful hat") == "a useful hat"
    assert with_article("umbrella") == "an umbrella"
