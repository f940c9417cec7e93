"""German words in their forms: articles and adjectives that agree with nouns, and verbs."""

from dataclasses import dataclass
from functools import cache

from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.words import (
    Adjective,
    Agreement,
    GrammaticalCase,
    Noun,
    Person,
    Verb,
)

Table = tuple[tuple[str, ...], ...]


def _paradigm(forms: str) -> Table:
    """Read rows by case and columns by gender, the last one plural; - is an empty form."""
    return tuple(
        tuple("" if form == "-" else form for form in row.split()) for row in forms.split("|")
    )


_DER = _paradigm("der die das die | den die das die | dem der dem den | des der des der")
_STRONG_ARTICLE = _paradigm("er e es e | en e es e | em er em en | es er es er")
_EIN_ARTICLE = _paradigm("- e - e | en e - e | em er em en | es er es er")
_WEAK = _paradigm("e e e en | en e e en | en en en en | en en en en")
_MIXED = _paradigm("er e es en | en e es en | en en en en | en en en en")
_STRONG = _paradigm("er e es e | en e es e | em er em en | en er en er")
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """What stands before adjective and noun; rows and columns as in the tables above."""

    english: str
    german: Table
    endings: Table
    is_definite: bool = True


def inflect(
    determiner: Determiner, adjective: Adjective | None, noun: Noun, agreement: Agreement
) -> tuple[str, ...]:
    """Inflect determiner, adjective and noun together, in all four cases."""
    nouns = noun.plural if agreement is Agreement.PLURAL else noun.singular
    before = _before_noun(determiner, adjective, agreement)
    return tuple(map(str.__add__, before, nouns))


@cache
def _before_noun(
    determiner: Determiner, adjective: Adjective | None, agreement: Agreement
) -> tuple[str, ...]:
    """Inflect what stands before the noun, with the space that follows each word."""
    forms = []
    for case in GrammaticalCase:
        words = [determiner.german[case][agreement]]
        if adjective:
            words.append(adjective.stem + determiner.endings[case][agreement])
        forms.append("".join(f"{word} " for word in words if word))
    return tuple(forms)


def _inflected(stem: str, endings: Table) -> Table:
    return tuple(tuple(stem + ending for ending in row) for row in endings)


def _unchanging(word: str) -> Table:
    return tuple((word,) * 4 for _ in GrammaticalCase)


def _ein_word(english: str, stem: str) -> Determiner:
    return Determiner(
        english, _inflected(stem, _EIN_ARTICLE), _MIXED, stem not in ("ein", "kein")
    )


def numeral(english: str, german: str) -> Determiner:
    """Make a determiner of a cardinal number above one."""
    return Determiner(english, _unchanging(german), _STRONG, is_definite=False)


THE = Determiner("the", _DER, _WEAK)
THIS = Determiner("this", _inflected("dies", _STRONG_ARTICLE), _WEAK)
THESE = Determiner("these", THIS.german, _WEAK)
EVERY = Determiner("every", _inflected("jed", _STRONG_ARTICLE), _WEAK)
WHICH = Determiner("which", _inflected("welch", _STRONG_ARTICLE), _WEAK)
ALL = Determiner("all the", _inflected("all", _STRONG_ARTICLE), _WEAK)
MANY = Determiner("many", _inflected("viel", _STRONG_ARTICLE), _STRONG, is_definite=False)
SOME = Determiner("some", _inflected("einig", _STRONG_ARTICLE), _STRONG, is_definite=False)
HOW_MANY = Determiner("how many", _inflected("wie viel", _STRONG_ARTICLE), _STRONG)
BARE = Determiner("", _unchanging(""), _STRONG, is_definite=False)
A = _ein_word("a", "ein")
NO = _ein_word("no", "kein")
_OWNERS = {"my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser"}
POSSESSIVES = tuple(_ein_word(*pair) for pair in (*_OWNERS.items(), ("their", "ihr")))
# Negated, what was indefinite says *kein* in German, while English keeps its own article.
NOT_A = _ein_word("a", "kein")
NOT_ANY = _ein_word("", "kein")


def with_preposition(preposition: str, phrase: str) -> str:
    """Put a preposition before a phrase; in dem Haus becomes im Haus."""
    article, _, rest = phrase.partition(" ")
    contracted = _CONTRACTIONS.get((preposition, article))
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"


HABEN = ("habe", "hast", "hat", "haben", "haben")
SEIN = ("bin", "bist", "ist", "sind", "sind")
WERDEN = ("werde", "wirst", "wird", "werden", "werden")
HATTE = ("hatte", "hattest", "hatte", "hatten", "hatten")
WAR = ("war", "warst", "war", "waren", "waren")
_MUSS = ("muss", "musst", "muss", "müssen", "müssen")
_MODALS = {
    Form.FUTURE: WERDEN,
    Form.CAN: ("kann", "kannst", "kann", "können", "können"),
    Form.MAY: ("darf", "darfst", "darf", "dürfen", "dürfen"),
    Form.MUST: _MUSS,
    Form.HAVE_TO: _MUSS,
    Form.WANT: ("will", "willst", "will", "wollen", "wollen"),
    Form.SHOULD: ("sollte", "solltest", "sollte", "sollten", "sollten"),
    Form.COULD: ("konnte", "konntest", "konnte", "konnten", "konnten"),
    Form.HAD_TO: ("musste", "musstest", "musste", "mussten", "mussten"),
    Form.WANTED: ("wollte", "wolltest", "wollte", "wollten", "wollten"),
}
REFLEXIVES = ("mich", "dich", "sich", "uns", "sich")


@dataclass(frozen=True, slots=True)
class VerbParts:
    """A German verb in a sentence: `finite` … `tail` in main clauses, else `closing`."""

    finite: str
    tail: str
    closing: str


def present_of(infinitive: str, you: str = "", third: str = "") -> tuple[str, ...]:
    """Conjugate in the present; `you` and `third` are given where they are irregular."""
    stem = infinitive[:-1] if infinitive.endswith("ern") else infinitive[:-2]
    link = "e" if stem.endswith(("d", "t", "gn")) else ""
    second = "t" if stem.endswith(("s", "ß", "z")) else "st"
    first = "weiß" if infinitive == "wissen" else stem + "e"
    other = you or stem + link + second, third or stem + link + "t"
    return (first, *other, infinitive, infinitive)


@cache
def verb_parts(verb: Verb, form: Form, person: Person) -> VerbParts:
    """Give the parts of a verb for one form and one person."""
    if form in _MODALS:
        return _two_words(_MODALS[form][person], verb.prefix + verb.infinitive)
    if form is Form.PAST and not verb.preterite:
        auxiliary = SEIN if verb.moves else HABEN
        return _two_words(auxiliary[person], verb.participle)
    finite = (verb.preterite if form is Form.PAST else verb.present)[person]
    return VerbParts(finite, verb.prefix, verb.prefix + finite)


def _two_words(finite: str, tail: str) -> VerbParts:
    return VerbParts(finite, tail, f"{tail} {finite}")


def infinitive_with_zu(verb: Verb) -> str:
    """Give the infinitive after *versucht* or *um*: zu kaufen, but anzurufen."""
    if verb.prefix:
        return f"{verb.prefix}zu{verb.infinitive}"
    return f"zu {verb.infinitive}"
