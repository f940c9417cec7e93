"""How English words change: plurals, verb endings, a or an."""

_SIBILANTS = ("s", "x", "z", "ch", "sh")
_DOUBLING = ("run", "swim", "sit", "get", "forget", "begin", "put")
_VOWELS = tuple("aeiou")


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and not word[:-1].endswith(_VOWELS)


def plural_of(noun: str) -> str:
    """Form the plural of a regular noun."""
    if _ends_in_consonant_y(noun):
        return noun[:-1] + "ies"
    if noun.endswith((*_SIBILANTS, "ato")):
        return noun + "es"
    return noun + "s"


def third_person_of(verb: str) -> str:
    """Form what he, she or it does."""
    if verb == "have":
        return "has"
    if _ends_in_consonant_y(verb):
        return verb[:-1] + "ies"
    if verb.endswith((*_SIBILANTS, "o")):
        return verb + "es"
    return verb + "s"


def participle_of(verb: str) -> str:
    """Form the -ing form."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb in _DOUBLING:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    if verb == "travel":
        return "travelling"
    return verb + "ing"


def with_article(phrase: str) -> str:
    """Put a or an before a phrase, by its first sound."""
    sounds_like_vowel = phrase.startswith(_VOWELS) and not phrase.startswith("use")
    return f"an {phrase}" if sounds_like_vowel else f"a {phrase}"
