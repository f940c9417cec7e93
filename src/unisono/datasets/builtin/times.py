"""Saying when: days, dates, clock times, and how often; each fits some verb forms only."""

from typing import NamedTuple

from unisono.datasets.builtin.chance import Chance
from unisono.datasets.builtin.forms import Form
from unisono.datasets.builtin.numerals import (
    english_cardinal,
    german_cardinal,
    ordinal_digits,
    word_pairs,
)


class Adverbial(NamedTuple):
    """One thing said in both languages."""

    english: str
    german: str


NOTHING = Adverbial("", "")

_WEEKDAYS = word_pairs(
    """Monday Montag, Tuesday Dienstag, Wednesday Mittwoch, Thursday Donnerstag,
    Friday Freitag, Saturday Samstag, Sunday Sonntag"""
)
_MONTHS = word_pairs(
    """January Januar, February Februar, March März, April April, May Mai, June Juni,
    July Juli, August August, September September, October Oktober, November November,
    December Dezember"""
)
_PARTS = {"morning": "Morgen", "evening": "Abend", "afternoon": "Nachmittag"}
_SEASONS = {"spring": "Frühling", "summer": "Sommer", "autumn": "Herbst", "winter": "Winter"}
_YEARS = range(1990, 2026)
_DAYS = range(1, 29)
# Unit, singular and plural after *vor* and *in*, which both want the dative here.
_UNITS = {"days": "Tagen", "weeks": "Wochen", "months": "Monaten", "years": "Jahren"}


def _fixed(table: str) -> tuple[Adverbial, ...]:
    lines = (line.split("=") for line in table.strip().splitlines())
    return tuple(Adverbial(english.strip(), german.strip()) for english, german in lines)


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
_PAST = _fixed("""
    yesterday = gestern
    last week = letzte Woche
    last month = letzten Monat
    last year = letztes Jahr
    last summer = letzten Sommer
    last night = letzte Nacht
    """)
_NEXT = _fixed("""
    tomorrow = morgen
    next week = nächste Woche
    next month = nächsten Monat
    next year = nächstes Jahr
    next summer = nächsten Sommer
    soon = bald
    """)
_NOW = _fixed("""
    today = heute
    now = jetzt
    at the moment = im Moment
    """)
_REGULAR = _fixed("""
    every day = jeden Tag
    every week = jede Woche
    every year = jedes Jahr
    every morning = jeden Morgen
    every evening = jeden Abend
    today = heute
    """)
FREQUENCIES = _fixed("""
    always = immer
    often = oft
    never = nie
    rarely = selten
    sometimes = manchmal
    """)

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
