"""The adjectives: English, its comparative, German, its comparative | families of nouns.

A German word written as two, like teuer/teur, loses a vowel before endings. The English
comparative `more` stands for the word itself with *more* before it; `-` for none.
"""

from unisono.datasets.builtin.words import Adjective, Noun

_BEINGS = "person animal"
_GOODS = "clothing text tool device opening furniture vehicle"
_PLACES = "indoors outdoors top edge"
_TABLE = f"""
    old older alt älter | {_BEINGS} {_GOODS} {_PLACES}
    young younger jung jünger | {_BEINGS}
    big bigger groß größer | {_BEINGS} {_GOODS} {_PLACES} food
    small smaller klein kleiner | {_BEINGS} {_GOODS} {_PLACES} food
    beautiful more schön schöner | {_BEINGS} {_GOODS} {_PLACES}
    ugly uglier hässlich hässlicher | {_BEINGS} {_GOODS} {_PLACES}
    strange stranger seltsam seltsamer | {_BEINGS} {_GOODS} {_PLACES}
    new newer neu neuer | {_GOODS} indoors
    good better gut besser | person food drink text tool device
    expensive more teuer/teur teurer | {_GOODS} indoors food drink
    cheap cheaper billig billiger | {_GOODS} food drink
    heavy heavier schwer schwerer | tool device furniture
    red - rot - | {_GOODS} food
    blue - blau - | {_GOODS}
    green - grün - | {_GOODS}
    yellow - gelb - | {_GOODS}
    black - schwarz - | {_GOODS} animal
    white - weiß - | {_GOODS} animal
    brown - braun - | clothing furniture animal
    dirty dirtier schmutzig schmutziger | {_GOODS} {_PLACES} animal
    clean cleaner sauber sauberer | {_GOODS} {_PLACES}
    broken - kaputt - | tool device furniture vehicle opening
    modern more modern moderner | device vehicle furniture indoors
    valuable more wertvoll wertvoller | tool text furniture device
    useful more nützlich nützlicher | tool text device furniture vehicle animal
    interesting more interessant interessanter | person text {_PLACES}
    boring more langweilig langweiliger | person text {_PLACES}
    famous more berühmt berühmter | person text {_PLACES}
    important - wichtig - | person text
    dangerous more gefährlich gefährlicher | animal vehicle {_PLACES} device
    quiet quieter ruhig ruhiger | person indoors outdoors edge
    dark darker dunkel/dunkl dunkler | {_PLACES}
    warm warmer warm wärmer | clothing food drink
    cold colder kalt kälter | food drink indoors
    hot hotter heiß heißer | food drink
    fresh fresher frisch frischer | food drink
    sweet sweeter süß süßer | food drink
    clever cleverer klug klüger | {_BEINGS}
    friendly friendlier freundlich freundlicher | {_BEINGS}
    happy happier glücklich glücklicher | {_BEINGS}
    sad sadder traurig trauriger | {_BEINGS} text
    tired more müde/müd müder | {_BEINGS}
    hungry hungrier hungrig hungriger | {_BEINGS}
    ill - krank - | {_BEINGS}
    healthy healthier gesund gesünder | {_BEINGS}
    strong stronger stark stärker | {_BEINGS} drink
    rich richer reich reicher | person outdoors
    poor poorer arm ärmer | person
    brave braver mutig mutiger | {_BEINGS}
    lazy lazier faul fauler | {_BEINGS}
    polite more höflich höflicher | person
    curious more neugierig neugieriger | {_BEINGS}
    lonely lonelier einsam einsamer | {_BEINGS} outdoors
    funny funnier lustig lustiger | {_BEINGS} text
    angry angrier wütend wütender | {_BEINGS}
    thirsty thirstier durstig durstiger | {_BEINGS}
    careful more vorsichtig vorsichtiger | person
    wild - wild - | animal
    """


def _adjective(line: str) -> Adjective:
    words, families = line.split("|")
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
        families=tuple(families.split()),
    )


ADJECTIVES = tuple(_adjective(line) for line in _TABLE.strip().splitlines())
_BY_FAMILY = {
    family: tuple(adjective for adjective in ADJECTIVES if family in adjective.families)
    for family in dict.fromkeys(name for adjective in ADJECTIVES for name in adjective.families)
}


def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """List the adjectives that make sense with a noun, in the order of the lexicon."""
    return _BY_FAMILY[noun.family]
