"""Numbers in words, and when something happens: days, dates, clock times, how often.

Each expression of time fits some verb forms only.
"""

from typing import NamedTuple

from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.english import Form
from unisono.datasets.builtin.lexicon import fixed_phrases

_SMALL = fixed_phrases("numbers")
_TENS = fixed_phrases("tens")
_ENGLISH_SMALL, _GERMAN_SMALL = tuple(_SMALL), tuple(_SMALL.values())
_ENGLISH_TENS, _GERMAN_TENS = tuple(_TENS), tuple(_TENS.values())


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


class Adverbial(NamedTuple):
    """One thing said in both languages."""

    english: str
    german: str


NO_ADVERBIAL = Adverbial("", "")

_WEEKDAYS = fixed_phrases("weekdays")
_MONTHS = fixed_phrases("months")
_PARTS = fixed_phrases("parts of the day")
_SEASONS = fixed_phrases("seasons")
# The German plurals are datives, which both *vor* and *in* demand here.
_UNITS = fixed_phrases("units of time")
_YEARS = range(1990, 2026)
_DAYS = range(1, 29)


def _fixed(section: str) -> tuple[Adverbial, ...]:
    return tuple(Adverbial(*pair) for pair in fixed_phrases(section).items())


def clock(hour: int, minutes: int) -> Adverbial:
    """Say a clock time from 1 to 12; half past three is half four in German."""
    this, following = hour, hour % 12 + 1
    english_this, english_next = english_cardinal(this), english_cardinal(following)
    german_this, german_next = german_cardinal(this), german_cardinal(following)
    if minutes == 0:
        german_hour = "ein" if hour == 1 else german_this
        return Adverbial(f"at {english_this} o'clock", f"um {german_hour} Uhr")
    if minutes == 30:
        return Adverbial(f"at half past {english_this}", f"um halb {german_next}")
    if minutes < 30:
        english, german = _distance(minutes)
        return Adverbial(f"at {english} past {english_this}", f"um {german} nach {german_this}")
    english, german = _distance(60 - minutes)
    return Adverbial(f"at {english} to {english_next}", f"um {german} vor {german_next}")


def _distance(minutes: int) -> tuple[str, str]:
    if minutes == 15:
        return "a quarter", "Viertel"
    return english_cardinal(minutes), german_cardinal(minutes)


def dates(day: int, month: str, year: int = 0) -> tuple[Adverbial, Adverbial]:
    """Say a date in the two ways of English; German has one."""
    german = f"am {day}. {_MONTHS[month]}" + (f" {year}" if year else "")
    plain = f"on {day} {month}" + (f" {year}" if year else "")
    ordinal = f"on {month} {ordinal_digits(day)}" + (f", {year}" if year else "")
    return Adverbial(plain, german), Adverbial(ordinal, german)


def _spans(english: str, german: str) -> tuple[Adverbial, ...]:
    return tuple(
        Adverbial(
            english.format(f"{english_cardinal(number)} {unit}"),
            german.format(f"{german_cardinal(number)} {german_unit}"),
        )
        for number in range(2, 13)
        for unit, german_unit in _UNITS.items()
    )


_CLOCK = tuple(
    clock(hour, minutes)
    for hour in range(1, 13)
    for minutes in range(0, 60, 5)
    if minutes not in (25, 35)
)
_WEEKDAY = tuple(Adverbial(f"on {day}", f"am {german}") for day, german in _WEEKDAYS.items())
_WEEKDAY_PART = tuple(
    Adverbial(f"on {day} {part}", f"am {german}{german_part.lower()}")
    for day, german in _WEEKDAYS.items()
    for part, german_part in _PARTS.items()
)
_WEEKDAY_CLOCK = tuple(
    Adverbial(f"on {day.english[3:]} {time.english}", f"{day.german} {time.german}")
    for day in _WEEKDAY
    for time in _CLOCK
)
_PART = tuple(Adverbial(f"in the {part}", f"am {german}") for part, german in _PARTS.items())
_SEASON = tuple(
    Adverbial(f"in {name}", f"im {german}") for name, german in (_SEASONS | _MONTHS).items()
)
_DATE = tuple(date for month in _MONTHS for day in _DAYS for date in dates(day, month))
_FULL_DATE = tuple(
    date
    for year in _YEARS
    for month in _MONTHS
    for day in _DAYS
    for date in dates(day, month, year)
)
_YEAR = tuple(Adverbial(f"in {year}", f"im Jahr {year}") for year in _YEARS)
_AGO = _spans("{} ago", "vor {}")
_AHEAD = _spans("in {}", "in {}")
_PAST = _fixed("past")
_NEXT = _fixed("future")
_NOW = _fixed("now")
_REGULAR = _fixed("regular")
FREQUENCIES = _fixed("frequencies")

_ANY_TIME = (_CLOCK, _WEEKDAY, _WEEKDAY_PART, _WEEKDAY_CLOCK, _PART, _SEASON, _DATE)
_PAST_TIMES = (*_ANY_TIME, _PAST, _PAST, _AGO, _AGO, _FULL_DATE, _FULL_DATE, _YEAR)
_FUTURE_TIMES = (*_ANY_TIME, _NEXT, _NEXT, _AHEAD)
_PRESENT_TIMES = (*_ANY_TIME, _REGULAR, _REGULAR)
_TIMES = {
    Form.PRESENT: _PRESENT_TIMES,
    Form.PROGRESSIVE: (_NOW,),
    Form.LIKE: (_PART, _SEASON),
    Form.PAST: _PAST_TIMES,
    Form.COULD: _PAST_TIMES,
    Form.WANTED: _PAST_TIMES,
    Form.HAD_TO: _PAST_TIMES,
}


def time_for(form: Form, is_negated: bool, chance: Chance) -> Adverbial:
    """Choose when, to fit the verb form; what is not done is not done every day."""
    if is_negated and form is Form.PRESENT:
        return chance.pick(chance.pick(_ANY_TIME))
    return chance.pick(chance.pick(_TIMES.get(form, _FUTURE_TIMES)))
