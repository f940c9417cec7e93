"""German agreement against tables written by hand."""

import pytest

from unisono.datasets.builtin import german
from unisono.datasets.builtin.german import inflect, with_preposition
from unisono.datasets.builtin.lexicon import ADJECTIVES, NOUNS
from unisono.datasets.builtin.words import Agreement

DETERMINERS = {
    "-": german.BARE,
    "the": german.THE,
    "a": german.A,
    "my": german.POSSESSIVES[0],
    "our": german.POSSESSIVES[4],
    "this": german.THIS,
    "every": german.EVERY,
    "which": german.WHICH,
    "no": german.NO,
    "all": german.ALL,
    "many": german.MANY,
    "some": german.SOME,
    "two": german.numeral("two", "zwei"),
}

# Nominative, accusative, dative, genitive; every ending of every table is here.
TABLE = """
the old man:
    der alte Mann, den alten Mann,
    dem alten Mann, des alten Mannes

the old woman:
    die alte Frau, die alte Frau,
    der alten Frau, der alten Frau

the old child:
    das alte Kind, das alte Kind,
    dem alten Kind, des alten Kindes

the old men:
    die alten Männer, die alten Männer,
    den alten Männern, der alten Männer

a new table:
    ein neuer Tisch, einen neuen Tisch,
    einem neuen Tisch, eines neuen Tisches

a new lamp:
    eine neue Lampe, eine neue Lampe,
    einer neuen Lampe, einer neuen Lampe

a new car:
    ein neues Auto, ein neues Auto,
    einem neuen Auto, eines neuen Autos

my new cars:
    meine neuen Autos, meine neuen Autos,
    meinen neuen Autos, meiner neuen Autos

our small dog:
    unser kleiner Hund, unseren kleinen Hund,
    unserem kleinen Hund, unseres kleinen Hundes

- cold tea:
    kalter Tee, kalten Tee,
    kaltem Tee, kalten Tees

- cold milk:
    kalte Milch, kalte Milch,
    kalter Milch, kalter Milch

- cold water:
    kaltes Wasser, kaltes Wasser,
    kaltem Wasser, kalten Wassers

- red flowers:
    rote Blumen, rote Blumen,
    roten Blumen, roter Blumen

this expensive coat:
    dieser teure Mantel, diesen teuren Mantel,
    diesem teuren Mantel, dieses teuren Mantels

every dark house:
    jedes dunkle Haus, jedes dunkle Haus,
    jedem dunklen Haus, jedes dunklen Hauses

which tired boy:
    welcher müde Junge, welchen müden Jungen,
    welchem müden Jungen, welches müden Jungen

no good student:
    kein guter Student, keinen guten Studenten,
    keinem guten Studenten, keines guten Studenten

all big cities:
    alle großen Städte, alle großen Städte,
    allen großen Städten, aller großen Städte

many big books:
    viele große Bücher, viele große Bücher,
    vielen großen Büchern, vieler großer Bücher

some big museums:
    einige große Museen, einige große Museen,
    einigen großen Museen, einiger großer Museen

two big hotels:
    zwei große Hotels, zwei große Hotels,
    zwei großen Hotels, zwei großer Hotels

the girls:
    die Mädchen, die Mädchen,
    den Mädchen, der Mädchen

the neighbour:
    der Nachbar, den Nachbarn,
    dem Nachbarn, des Nachbarn
"""


@pytest.mark.parametrize("row", TABLE.strip().split("\n\n"), ids=lambda row: row.split(":")[0])
def test_article_adjective_and_noun_agree(row):
    english, forms = row.split(":")
    article, *adjectives, name = english.split()
    adjective = next((word for word in ADJECTIVES if [word.english] == adjectives), None)
    noun = next(noun for noun in NOUNS if name in (noun.english, noun.english_plural))
    agreement = Agreement.PLURAL if name == noun.english_plural else noun.gender
    expected = tuple(" ".join(form.split()) for form in forms.split(","))
    assert inflect(DETERMINERS[article], adjective, noun, agreement) == expected


def test_weak_and_strong_endings_share_the_work():
    """The adjective shows gender and case exactly where the article does not."""
    old = next(word for word in ADJECTIVES if word.english == "old")
    marks = ("er", "en", "em", "es")
    for noun in NOUNS:
        if noun.gender is Agreement.FEMININE:
            continue
        for case in range(3):
            strong = inflect(german.BARE, old, noun, noun.gender)[case].split()[0]
            weak = inflect(german.THIS, old, noun, noun.gender)[case].split()
            assert strong.removeprefix("alt") == weak[0].removeprefix("dies")
            assert weak[0].endswith(marks) and weak[1] in ("alte", "alten")


@pytest.mark.parametrize(
    ("preposition", "phrase", "expected"),
    [
        ("in", "dem Garten", "im Garten"),
        ("in", "das alte Haus", "ins alte Haus"),
        ("in", "den Garten", "in den Garten"),
        ("in", "diesem Garten", "in diesem Garten"),
        ("an", "dem See", "am See"),
        ("an", "das Kind", "an das Kind"),
        ("zu", "dem Bahnhof", "zum Bahnhof"),
        ("zu", "der Schule", "zur Schule"),
        ("zu", "den Schulen", "zu den Schulen"),
        ("von", "dem Strand", "vom Strand"),
        ("auf", "dem Tisch", "auf dem Tisch"),
    ],
)
def test_a_preposition_swallows_some_articles(preposition, phrase, expected):
    assert with_preposition(preposition, phrase) == expected
