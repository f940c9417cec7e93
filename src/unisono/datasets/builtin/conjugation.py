"""How German verbs change, and where their parts stand: finite first, the rest last."""

from dataclasses import dataclass
from functools import cache

from unisono.datasets.builtin.forms import Form
from unisono.datasets.builtin.words import Person, Verb

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
    return (
        first,
        you or stem + link + second,
        third or stem + link + "t",
        infinitive,
        infinitive,
    )


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
