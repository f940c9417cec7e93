"""What the lexicon says about a word, and the categories German grammar needs."""

from dataclasses import dataclass
from enum import IntEnum


class GrammaticalCase(IntEnum):
    """The four German cases, in the order of every table of forms."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


class Agreement(IntEnum):
    """What a noun demands of its article and adjective: its gender, or plural."""

    MASCULINE = 0
    FEMININE = 1
    NEUTER = 2
    PLURAL = 3


class Person(IntEnum):
    """Who acts, in the order of every table of verb forms."""

    FIRST = 0
    SECOND = 1
    THIRD = 2
    FIRST_PLURAL = 3
    THIRD_PLURAL = 4


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun in both languages; German forms run in the order of `GrammaticalCase`."""

    english: str
    english_plural: str
    gender: Agreement
    singular: tuple[str, ...]
    plural: tuple[str, ...]
    family: str

    @property
    def is_mass(self) -> bool:
        """Tell whether the noun is never counted, like water."""
        return self.family == "drink"


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective in both languages; `stem` is what German endings are added to.

    The comparatives are empty where nobody compares.
    """

    english: str
    english_comparative: str
    german: str
    stem: str
    german_comparative: str
    families: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in both languages, with what may stand as its object.

    `particle` moves behind a pronoun (picks him up); `preposition` does not (looks for
    him). `prefix` is the separable part of the German verb. `present` and `preterite` run
    in the order of `Person`; only verbs that form no perfect here have a preterite.
    """

    english: str
    past: str
    particle: str
    preposition: str
    is_stative: bool
    infinitive: str
    prefix: str
    present: tuple[str, ...]
    participle: str
    moves: bool
    preterite: tuple[str, ...] = ()
    german_preposition: str = ""
    case: GrammaticalCase = GrammaticalCase.ACCUSATIVE
    is_reflexive: bool = False
    objects: tuple[Noun, ...] = ()

    @property
    def name(self) -> str:
        """Name the verb in English as a dictionary would."""
        return " ".join(filter(None, (self.english, self.particle, self.preposition)))
