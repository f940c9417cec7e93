"""Whole sentences against translations written by hand."""

import pytest

from unisono.datasets.builtin import german
from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.clauses import (
    Clause,
    english_infinitive,
    english_question,
    english_statement,
    german_infinitive,
    german_inverted,
    german_statement,
    german_subordinate,
)
from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.german import REFLEXIVES, with_preposition
from unisono.datasets.builtin.lexicon import ADJECTIVES, NOUNS, VERB_GROUPS
from unisono.datasets.builtin.noun_phrases import (
    IT,
    PRONOUNS,
    noun_phrase,
    owned,
    pronoun_for,
    relative_for,
)
from unisono.datasets.builtin.predicates import Predicate, applied_to, describing
from unisono.datasets.builtin.statements import price
from unisono.datasets.builtin.times import NO_ADVERBIAL, Adverbial, clock, dates
from unisono.datasets.builtin.words import GrammaticalCase

THE, A = german.THE, german.A
ME, YOU, HE, SHE, WE, THEY = PRONOUNS
MY, HER = german.POSSESSIVES[0], german.POSSESSIVES[3]
MONDAY = Adverbial("on Monday", "am Montag")
YESTERDAY = Adverbial("yesterday", "gestern")
OFTEN = Adverbial("often", "oft")


def phrase(determiner, words):
    *adjectives, name = words.split()
    adjective = next((word for word in ADJECTIVES if [word.english] == adjectives), None)
    noun = next(noun for noun in NOUNS if name in (noun.english, noun.english_plural))
    return noun_phrase(determiner, adjective, noun, name == noun.english_plural)


def verb(name, table=VERB_GROUPS["with accusative"]):
    return next(verb for verb in table if verb.name == name)


def does(name, target, table=VERB_GROUPS["with accusative"]):
    return applied_to(verb(name, table), target)


def concerns(name, subject, target):
    found = verb(name, VERB_GROUPS["with preposition"])
    return Predicate(
        found,
        f"{found.preposition} {target.english_object}".strip(),
        pronoun=REFLEXIVES[subject.person] if found.is_reflexive else "",
        late=with_preposition(found.german_preposition, target.german[found.case]),
    )


CALLS = does("call", phrase(THE, "man"), VERB_GROUPS["separable with accusative"])
PICKS_UP = does("pick up", phrase(THE, "old aunt"), VERB_GROUPS["separable with accusative"])
PICKS_HIM_UP = does("pick up", HE, VERB_GROUPS["separable with accusative"])
LOOKS_FOR_HIM = does("look for", HE)
BUYS_CAR = does("buy", phrase(THE, "car"))
BUYS_HATS = does("buy", phrase(german.BARE, "red hats"))
NO_DOG = does("see", phrase(german.NOT_A, "dog"))._replace(says_kein=True)
NO_MILK = does("buy", phrase(german.NOT_ANY, "cold milk"))._replace(says_kein=True)
HELPS = does("help", phrase(THE, "children"), VERB_GROUPS["with dative"])
SWIMS = Predicate(verb("swim", VERB_GROUPS["activities"]), "at the lake", late="am See")
GOES = Predicate(verb("go", VERB_GROUPS["motions"]), "into the house", late="ins Haus")
GETS_UP = Predicate(verb("get up", VERB_GROUPS["separable activities"]), "up")
IS_OLD = describing(ADJECTIVES[0], "", True, Chance(0))
WOMAN, BOYS = phrase(THE, "woman"), phrase(THE, "boys")

STATEMENTS = [
    (Clause(WOMAN, CALLS), "the woman calls the man", "die Frau ruft den Mann an"),
    (
        Clause(WOMAN, CALLS, Form.PAST),
        "the woman called the man",
        "die Frau hat den Mann angerufen",
    ),
    (Clause(WE, CALLS, Form.WANT), "we want to call the man", "wir wollen den Mann anrufen"),
    (Clause(ME, PICKS_HIM_UP), "I pick him up", "ich hole ihn ab"),
    (Clause(ME, LOOKS_FOR_HIM, Form.PROGRESSIVE), "I am looking for him", "ich suche ihn"),
    (
        Clause(HE, PICKS_UP, Form.FUTURE, MONDAY),
        "he will pick up the old aunt on Monday",
        "er wird am Montag die alte Tante abholen",
    ),
    (
        Clause(YOU, BUYS_CAR, is_negated=True),
        "you do not buy the car",
        "du kaufst das Auto nicht",
    ),
    (
        Clause(BOYS, BUYS_CAR, Form.PAST, YESTERDAY, is_negated=True),
        "the boys did not buy the car yesterday",
        "die Jungen haben das Auto gestern nicht gekauft",
    ),
    (Clause(HE, NO_DOG, is_negated=True), "he does not see a dog", "er sieht keinen Hund"),
    (
        Clause(SHE, NO_MILK, Form.PAST, is_negated=True),
        "she did not buy cold milk",
        "sie hat keine kalte Milch gekauft",
    ),
    (Clause(WOMAN, HELPS), "the woman helps the children", "die Frau hilft den Kindern"),
    (Clause(HE, SWIMS, Form.LIKE), "he likes to swim at the lake", "er schwimmt gern am See"),
    (Clause(HE, SWIMS, Form.PAST), "he swam at the lake", "er ist am See geschwommen"),
    (
        Clause(HE, GOES, Form.PAST, is_negated=True),
        "he did not go into the house",
        "er ist nicht ins Haus gegangen",
    ),
    (
        Clause(ME, GETS_UP, Form.HAVE_TO, clock(6, 30)),
        "I have to get up at half past six",
        "ich muss um halb sieben aufstehen",
    ),
    (
        Clause(WOMAN, BUYS_HATS, frequency=OFTEN),
        "the woman often buys red hats",
        "die Frau kauft oft rote Hüte",
    ),
    (Clause(BOYS, IS_OLD, Form.PAST), "the boys were old", "die Jungen waren alt"),
    (Clause(HE, IS_OLD, is_negated=True), "he is not old", "er ist nicht alt"),
    (
        Clause(WE, BUYS_CAR, Form.CAN, is_negated=True),
        "we cannot buy the car",
        "wir können das Auto nicht kaufen",
    ),
    (
        Clause(ME, concerns("remember", ME, phrase(THE, "castle"))),
        "I remember the castle",
        "ich erinnere mich an das Schloss",
    ),
    (
        Clause(SHE, concerns("dream of", SHE, phrase(THE, "sweet cake")), Form.PAST),
        "she dreamed of the sweet cake",
        "sie hat vom süßen Kuchen geträumt",
    ),
    (
        Clause(WOMAN, BUYS_CAR, Form.COULD, dates(3, "March", 2021)[1]),
        "the woman could buy the car on March 3rd, 2021",
        "die Frau konnte am 3. März 2021 das Auto kaufen",
    ),
]


@pytest.mark.parametrize(("clause", "english", "translation"), STATEMENTS)
def test_statements(clause, english, translation):
    assert english_statement(clause) == english
    assert german_statement(clause) == translation


@pytest.mark.parametrize(
    ("clause", "translation"),
    [
        (Clause(WOMAN, CALLS), "die Frau den Mann anruft"),
        (Clause(WOMAN, CALLS, Form.PAST), "die Frau den Mann angerufen hat"),
        (Clause(WE, CALLS, Form.WANT), "wir den Mann anrufen wollen"),
        (Clause(HE, GOES, Form.PAST, is_negated=True), "er nicht ins Haus gegangen ist"),
        (Clause(ME, PICKS_HIM_UP, Form.FUTURE), "ich ihn abholen werde"),
        (Clause(IT, Predicate(VERB_GROUPS["weather"][0])), "es regnet"),
        (
            Clause(WOMAN, concerns("remember", WOMAN, phrase(MY, "uncle"))),
            "sich die Frau an meinen Onkel erinnert",
        ),
        (
            Clause(SHE, concerns("remember", SHE, phrase(MY, "uncle"))),
            "sie sich an meinen Onkel erinnert",
        ),
    ],
)
def test_the_verb_comes_last_in_subordinate_clauses(clause, translation):
    assert german_subordinate(clause) == translation


@pytest.mark.parametrize(
    ("clause", "english", "translation"),
    [
        (Clause(WOMAN, CALLS), "does the woman call the man", "ruft die Frau den Mann an"),
        (Clause(YOU, BUYS_CAR, Form.PAST), "did you buy the car", "hast du das Auto gekauft"),
        (Clause(HE, IS_OLD), "is he old", "ist er alt"),
        (Clause(ME, GOES, Form.MAY), "may I go into the house", "darf ich ins Haus gehen"),
        (
            Clause(WOMAN, concerns("look forward to", WOMAN, phrase(HER, "new book"))),
            "does the woman look forward to her new book",
            "freut sich die Frau auf ihr neues Buch",
        ),
    ],
)
def test_questions_begin_with_the_verb(clause, english, translation):
    assert english_question(clause) == english
    assert german_inverted(clause) == translation


def test_infinitives_with_zu():
    assert english_infinitive(Clause(HE, CALLS)) == "to call the man"
    assert german_infinitive(Clause(HE, CALLS)) == "den Mann anzurufen"
    assert (
        german_infinitive(Clause(HE, BUYS_CAR, time=MONDAY)) == "am Montag das Auto zu kaufen"
    )


def test_an_owner_stands_in_the_genitive():
    car = owned(phrase(MY, "neighbour"), ADJECTIVES[0], verb("buy").objects[-1])
    house = owned(phrase(THE, "man"), None, next(n for n in NOUNS if n.english == "house"))
    assert house.english == "the man's house"
    assert house.german[GrammaticalCase.DATIVE] == "dem Haus des Mannes"
    assert with_preposition("in", house.german[GrammaticalCase.DATIVE]) == "im Haus des Mannes"
    assert car.german[GrammaticalCase.NOMINATIVE].endswith("meines Nachbarn")


def test_it_takes_the_gender_of_the_noun():
    things = {"lamp": "sie", "coat": "er", "book": "es", "books": "sie"}
    for noun, pronoun in things.items():
        assert pronoun_for(phrase(THE, noun)).german[GrammaticalCase.NOMINATIVE] == pronoun


def test_relative_pronouns_agree():
    man, women = phrase(THE, "man"), phrase(THE, "women")
    assert relative_for(man.agreement, True).german[:3] == ("der", "den", "dem")
    assert relative_for(women.agreement, True).german[:3] == ("die", "die", "denen")
    assert relative_for(man.agreement, False).english == "that"


def test_thousands_are_grouped_by_the_habit_of_each_language():
    chance = Chance(1)
    pair = next(pair for pair in (price(chance) for _ in range(99)) if "," in pair.source)
    amount = pair.source.split()[-2]
    assert pair.target.split()[-2] == amount.replace(",", ".")


def test_nothing_is_said_of_no_time():
    assert NO_ADVERBIAL == ("", "")
