"""Cardinal numbers in words: twenty-three is dreiundzwanzig, three-and-twenty."""

_SMALL = """
    zero null, one eins, two zwei, three drei, four vier, five fünf, six sechs, seven sieben,
    eight acht, nine neun, ten zehn, eleven elf, twelve zwölf, thirteen dreizehn,
    fourteen vierzehn, fifteen fünfzehn, sixteen sechzehn, seventeen siebzehn,
    eighteen achtzehn, nineteen neunzehn
    """
_TENS = """
    twenty zwanzig, thirty dreißig, forty vierzig, fifty fünfzig, sixty sechzig,
    seventy siebzig, eighty achtzig, ninety neunzig
    """


def word_pairs(table: str) -> dict[str, str]:
    """Read English and German words, two and two between commas."""
    pairs: dict[str, str] = {}
    for entry in table.split(","):
        english, german = entry.split()
        pairs[english] = german
    return pairs


_ENGLISH_SMALL, _GERMAN_SMALL = tuple(word_pairs(_SMALL)), tuple(word_pairs(_SMALL).values())
_ENGLISH_TENS, _GERMAN_TENS = tuple(word_pairs(_TENS)), tuple(word_pairs(_TENS).values())


def english_cardinal(number: int) -> str:
    """Write a number from 0 to 99 in English."""
    if number < 20:
        return _ENGLISH_SMALL[number]
    tens, ones = divmod(number, 10)
    word = _ENGLISH_TENS[tens - 2]
    return f"{word}-{_ENGLISH_SMALL[ones]}" if ones else word


def german_cardinal(number: int) -> str:
    """Write a number from 0 to 99 in German."""
    if number < 20:
        return _GERMAN_SMALL[number]
    tens, ones = divmod(number, 10)
    word = _GERMAN_TENS[tens - 2]
    if not ones:
        return word
    first = "ein" if ones == 1 else _GERMAN_SMALL[ones]
    return f"{first}und{word}"


def ordinal_digits(number: int) -> str:
    """Write 1st, 2nd, 3rd, 4th …"""
    is_teen = number % 100 in (11, 12, 13)
    suffix = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
