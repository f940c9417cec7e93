"""Read the lexicon of the built-in corpus from the tables in data/.

A table is plain text: `[section]` lines, rows of words below them, `#` for comments, which
also explain the columns. The order of rows is part of the corpus: generation draws by position.
"""

from pathlib import Path

from unisono.datasets.builtin.english import plural_of
from unisono.datasets.builtin.german import HABEN, HATTE, SEIN, WAR, present_of
from unisono.datasets.builtin.words import Adjective, Agreement, GrammaticalCase, Noun, Verb

_DATA = Path(__file__).parent / "data"
_GENDERS = {"m": Agreement.MASCULINE, "f": Agreement.FEMININE, "n": Agreement.NEUTER}


def _sections(name: str) -> dict[str, list[str]]:
    """Read one table as rows by section."""
    sections: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in (_DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(line)
    return sections


def _groups(rows: list[str]) -> dict[str, list[str]]:
    """Read rows that name a group and list what belongs to it."""
    return {name: members for name, *members in map(str.split, rows)}


_PHRASES = _sections("phrases")


def fixed_phrases(section: str) -> dict[str, str]:
    """List the English phrases of a section with their German translations."""
    return dict(row.split(" = ") for row in _PHRASES[section])


def _noun(row: str, family: str) -> Noun:
    english, gender, nominative, genitive, plural, *english_plural = row.split()
    is_weak = gender == "m" and genitive.endswith("n")
    oblique = genitive if is_weak else nominative
    dative_plural = plural if plural.endswith(("n", "s")) else plural + "n"
    return Noun(
        english=english,
        english_plural=english_plural[0] if english_plural else plural_of(english),
        gender=_GENDERS[gender],
        singular=(nominative, oblique, oblique, genitive),
        plural=(plural, plural, dative_plural, plural),
        family=family,
    )


_FAMILIES = _sections("nouns")
NOUNS = tuple(_noun(row, family) for family, rows in _FAMILIES.items() for row in rows)


def nouns_of(*families: str) -> tuple[Noun, ...]:
    """Pick the nouns of the named families, in the order of the lexicon."""
    unknown = set(families) - _FAMILIES.keys()
    if unknown:
        raise KeyError(f"no such family of nouns: {sorted(unknown)}")
    return tuple(noun for noun in NOUNS if noun.family in families)


def _adjective(row: str, abbreviations: dict[str, list[str]]) -> Adjective:
    words, taken = row.split("|")
    english, english_comparative, german, german_comparative = words.split()
    predicate, _, stem = german.partition("/")
    if english_comparative == "more":
        english_comparative = f"more {english}"
    return Adjective(
        english=english,
        english_comparative=english_comparative.removeprefix("-"),
        german=predicate,
        stem=stem or predicate,
        german_comparative=german_comparative.removeprefix("-"),
        families=tuple(
            family for name in taken.split() for family in abbreviations.get(name, [name])
        ),
    )


def _adjectives() -> tuple[Adjective, ...]:
    sections = _sections("adjectives")
    abbreviations = _groups(sections["abbreviations"])
    return tuple(_adjective(row, abbreviations) for row in sections["adjectives"])


ADJECTIVES = _adjectives()
_BY_FAMILY = {
    family: tuple(adjective for adjective in ADJECTIVES if family in adjective.families)
    for family in _FAMILIES
}


def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """List the adjectives that make sense with a noun, in the order of the lexicon."""
    return _BY_FAMILY[noun.family]


_VERB_TABLES = _sections("verbs")
_NOUN_GROUPS = _groups(_VERB_TABLES.pop("groups"))
PLACES = tuple(_NOUN_GROUPS["places"])


def _objects(names: list[str]) -> tuple[Noun, ...]:
    families = [family for name in names for family in _NOUN_GROUPS.get(name, [name])]
    return tuple(noun for noun in NOUNS if noun.family in families or noun.english in families)


def _government(words: list[str]) -> tuple[str, GrammaticalCase, list[str]]:
    """Split an object column into German preposition, case and families of nouns."""
    for position, word in enumerate(words[:2]):
        if word in ("accusative", "dative"):
            preposition, families = words[:position], words[position + 1 :]
            return " ".join(preposition), GrammaticalCase[word.upper()], families
    return "", GrammaticalCase.ACCUSATIVE, words


def _verb(row: str) -> Verb:
    english, german, taken = (part.split() for part in row.split("|"))
    word, _, english_preposition = english[0].rstrip("*").partition("+")
    base, _, particle = word.partition("-")
    is_reflexive = german[0] == "sich"
    dictionary_form, *irregular, auxiliary, participle = german[is_reflexive:]
    prefix, _, infinitive = dictionary_form.rpartition("-")
    german_preposition, case, families = _government(taken)
    return Verb(
        english=base,
        past=english[1].removeprefix("-"),
        particle=particle,
        preposition=english_preposition.replace("+", " "),
        is_stative=english[0].endswith("*"),
        infinitive=infinitive,
        prefix=prefix,
        present=present_of(infinitive, *irregular),
        participle=participle,
        moves=auxiliary == "ist",
        german_preposition=german_preposition,
        case=case,
        is_reflexive=is_reflexive,
        objects=_objects(families),
    )


VERB_GROUPS = {section: tuple(map(_verb, rows)) for section, rows in _VERB_TABLES.items()}


def _state(
    english: str,
    past: str,
    infinitive: str,
    present: tuple[str, ...],
    preterite: tuple[str, ...],
    objects: tuple[Noun, ...] = (),
) -> Verb:
    return Verb(
        english=english,
        past=past,
        particle="",
        preposition="",
        is_stative=True,
        infinitive=infinitive,
        prefix="",
        present=present,
        participle="",
        moves=False,
        preterite=preterite,
        objects=objects,
    )


BE = _state("be", "was", "sein", SEIN, WAR)
HAVE = _state("have", "had", "haben", HABEN, HATTE, _objects(["goods", "animal"]))
