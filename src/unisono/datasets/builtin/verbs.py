"""The verbs, by what they take: English, past | German | object.

English: `pick-up` has a particle, `look+for` a preposition; `*` marks a verb that is never
progressive; a past written `-` is not used. German: `ab-holen` is separable; the present of
*du* and *er* is given where the vowel changes; then *hat* or *ist* and the participle.
The object is accusative unless a case is named, and a family of nouns or a single noun. For
activities it is where they happen; for postures, who or what stands there.
"""

from unisono.datasets.builtin.conjugation import HABEN, HATTE, SEIN, WAR, present_of
from unisono.datasets.builtin.nouns import GOODS, NOUNS, PLACES, PORTABLE
from unisono.datasets.builtin.words import GrammaticalCase, Noun, Verb

_GROUPS = {
    "portable": PORTABLE,
    "goods": GOODS,
    "places": PLACES,
    "being": ("person", "animal"),
    "upright": ("cup", "plate", "clock", "bottle", "glass", "basket", "candle", "mirror"),
    "flat": ("key", "knife", "spoon", "picture", "ring", "flower", "umbrella", "gift"),
    "anything": ("person", "animal", *GOODS, *PLACES),
}
_WITH_ACCUSATIVE = """
    buy bought | kaufen hat gekauft | goods animal drink
    sell sold | verkaufen hat verkauft | goods animal drink
    find found | finden hat gefunden | goods being
    lose lost | verlieren hat verloren | clothing text tool animal
    look+for looked | suchen hat gesucht | anything
    see* saw | sehen siehst sieht hat gesehen | anything
    carry carried | tragen trägst trägt hat getragen | portable
    wash washed | waschen wäschst wäscht hat gewaschen | clothing vehicle animal
    repair repaired | reparieren hat repariert | device vehicle furniture opening
    paint painted | malen hat gemalt | anything
    forget* forgot | vergessen vergisst vergisst hat vergessen | clothing text tool
    hide hid | verstecken hat versteckt | portable
    steal stole | stehlen stiehlst stiehlt hat gestohlen | portable vehicle animal
    love* loved | lieben hat geliebt | being places drink
    know* knew | kennen hat gekannt | person text places
    order ordered | bestellen hat bestellt | food drink clothing text furniture
    use used | benutzen hat benutzt | tool device furniture vehicle
    pay+for paid | bezahlen hat bezahlt | portable vehicle drink
    describe described | beschreiben hat beschrieben | anything
    photograph photographed | fotografieren hat fotografiert | anything
    choose chose | wählen hat gewählt | goods
    read* - | lesen liest liest hat gelesen | text
    write wrote | schreiben hat geschrieben | text
    eat ate | essen isst isst hat gegessen | food
    drink drank | trinken hat getrunken | drink
    cook cooked | kochen hat gekocht | egg potato soup sausage carrot
    taste tasted | probieren hat probiert | food drink
    visit visited | besuchen hat besucht | person places
    hear* heard | hören hat gehört | being
    ask asked | fragen hat gefragt | person
    greet greeted | grüßen hat gegrüßt | person
    meet met | treffen triffst trifft hat getroffen | person
    protect protected | schützen hat geschützt | being places
    feed fed | füttern hat gefüttert | animal
    catch caught | fangen fängst fängt hat gefangen | animal
    """
_SEPARABLE_WITH_ACCUSATIVE = """
    call called | an-rufen hat angerufen | person
    invite invited | ein-laden lädst lädt hat eingeladen | person
    pick-up picked | ab-holen hat abgeholt | person text tool
    wake-up woke | auf-wecken hat aufgeweckt | being
    look+at looked | an-sehen siehst sieht hat angesehen | anything
    bring-along brought | mit-bringen hat mitgebracht | portable drink being
    throw-away threw | weg-werfen wirfst wirft hat weggeworfen | portable
    put-on - | an-ziehen hat angezogen | clothing
    take-off took | aus-ziehen hat ausgezogen | clothing
    try-on tried | an-probieren hat anprobiert | clothing
    switch-on switched | ein-schalten hat eingeschaltet | device
    switch-off switched | aus-schalten hat ausgeschaltet | device
    unpack unpacked | aus-packen hat ausgepackt | portable
    pack packed | ein-packen hat eingepackt | portable
    open opened | auf-machen hat aufgemacht | opening
    close closed | zu-machen hat zugemacht | opening
    bring-back brought | zurück-bringen hat zurückgebracht | portable vehicle
    tidy-up tidied | auf-räumen hat aufgeräumt | indoors
    """
_WITH_DATIVE = """
    help helped | helfen hilfst hilft hat geholfen | dative being
    thank thanked | danken hat gedankt | dative person
    follow followed | folgen ist gefolgt | dative being vehicle
    answer answered | antworten hat geantwortet | dative person
    trust* trusted | vertrauen hat vertraut | dative being
    congratulate congratulated | gratulieren hat gratuliert | dative person
    listen+to listened | zu-hören hat zugehört | dative person
    agree+with* agreed | zu-stimmen hat zugestimmt | dative person
    """
_WITH_PREPOSITION = """
    wait+for waited | warten hat gewartet | auf accusative being vehicle text
    think+of thought | denken hat gedacht | an accusative anything
    talk+about talked | sprechen sprichst spricht hat gesprochen | über accusative anything
    ask+about asked | fragen hat gefragt | nach dative anything
    begin+with* began | an-fangen fängst fängt hat angefangen | mit dative text food
    laugh+about laughed | lachen hat gelacht | über accusative being text clothing
    dream+of dreamed | träumen hat geträumt | von dative anything
    play+with played | spielen hat gespielt | mit dative being tool
    travel+with travelled | reisen ist gereist | mit dative person
    dance+with danced | tanzen hat getanzt | mit dative person
    fight+against fought | kämpfen hat gekämpft | gegen accusative being
    look+after looked | kümmern hat gekümmert | um accusative being vehicle outdoors
    look+forward+to looked | freuen hat gefreut | auf accusative food text indoors
    remember* remembered | erinnern hat erinnert | an accusative being text places
    complain+about complained | beschweren hat beschwert | über accusative person food places
    """
_REFLEXIVE = ("kümmern", "freuen", "erinnern", "beschweren")
_WITH_RECEIVER = """
    give gave | geben gibst gibt hat gegeben | portable animal drink
    show showed | zeigen hat gezeigt | goods animal places
    send sent | schicken hat geschickt | clothing text tool device
    lend lent | leihen hat geliehen | clothing text tool device vehicle
    bring brought | bringen hat gebracht | portable drink
    """
_ACTIVITIES = """
    sleep slept | schlafen schläfst schläft hat geschlafen | places
    work worked | arbeiten hat gearbeitet | places
    dance danced | tanzen hat getanzt | places
    sing sang | singen hat gesungen | places
    laugh laughed | lachen hat gelacht | places
    cry cried | weinen hat geweint | places
    play played | spielen hat gespielt | places
    wait waited | warten hat gewartet | places
    swim swam | schwimmen ist geschwommen | lake river beach
    """
_DWELLING = """
    live* lived | wohnen hat gewohnt | places
    stay stayed | bleiben ist geblieben | places
    """
_SEPARABLE_ACTIVITIES = """
    get-up got | auf-stehen ist aufgestanden |
    arrive arrived | an-kommen ist angekommen | indoors outdoors edge
    come-back came | zurück-kommen ist zurückgekommen |
    fall-asleep fell | ein-schlafen schläfst schläft ist eingeschlafen | places
    wake-up woke | auf-wachen ist aufgewacht | indoors outdoors
    go-out went | aus-gehen ist ausgegangen |
    """
_MOTIONS = """
    go went | gehen ist gegangen |
    run ran | laufen läufst läuft ist gelaufen |
    drive drove | fahren fährst fährt ist gefahren |
    come* came | kommen ist gekommen |
    hurry hurried | eilen ist geeilt |
    """
_PLACINGS = """
    lay laid | legen hat gelegt | text clothing flat
    place placed | stellen hat gestellt | upright device
    """
_POSTURES = """
    lie - | liegen hat gelegen | text clothing flat animal
    stand - | stehen hat gestanden | upright device
    """
_SAYING = """
    say said | sagen hat gesagt |
    believe* believed | glauben hat geglaubt |
    hope* hoped | hoffen hat gehofft |
    know* - | wissen weißt weiß hat gewusst |
    dream dreamed | träumen hat geträumt |
    """
_INTENDING = """
    try tried | versuchen hat versucht |
    promise* promised | versprechen versprichst verspricht hat versprochen |
    decide* decided | beschließen hat beschlossen |
    forget* forgot | vergessen vergisst vergisst hat vergessen |
    begin* began | an-fangen fängst fängt hat angefangen |
    """
_WEATHER = """
    rain rained | regnen hat geregnet |
    snow snowed | schneien hat geschneit |
    """


def _objects(names: list[str]) -> tuple[Noun, ...]:
    families = [family for name in names for family in _GROUPS.get(name, (name,))]
    return tuple(noun for noun in NOUNS if noun.family in families or noun.english in families)


def _government(words: list[str]) -> tuple[str, GrammaticalCase, list[str]]:
    """Split an object column into German preposition, case and families of nouns."""
    for position, word in enumerate(words[:2]):
        if word in ("accusative", "dative"):
            return (
                " ".join(words[:position]),
                GrammaticalCase[word.upper()],
                words[position + 1 :],
            )
    return "", GrammaticalCase.ACCUSATIVE, words


def _verb(line: str) -> Verb:
    english, german, taken = (part.split() for part in line.split("|"))
    word, _, english_preposition = english[0].rstrip("*").partition("+")
    base, _, particle = word.partition("-")
    prefix, _, infinitive = german[0].rpartition("-")
    german_preposition, case, families = _government(taken)
    return Verb(
        english=base,
        past=english[1].removeprefix("-"),
        particle=particle,
        preposition=english_preposition.replace("+", " "),
        is_stative=english[0].endswith("*"),
        infinitive=infinitive,
        prefix=prefix,
        present=present_of(infinitive, *german[1:-2]),
        participle=german[-1],
        moves=german[-2] == "ist",
        german_preposition=german_preposition,
        case=case,
        is_reflexive=infinitive in _REFLEXIVE,
        objects=_objects(families),
    )


def _state(
    english: str,
    infinitive: str,
    present: tuple[str, ...],
    preterite: tuple[str, ...],
    objects: tuple[Noun, ...] = (),
) -> Verb:
    return Verb(
        english=english,
        past="had" if english == "have" else "was",
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


def _verbs(table: str) -> tuple[Verb, ...]:
    return tuple(_verb(line) for line in table.strip().splitlines())


WITH_ACCUSATIVE = _verbs(_WITH_ACCUSATIVE)
SEPARABLE_WITH_ACCUSATIVE = _verbs(_SEPARABLE_WITH_ACCUSATIVE)
WITH_DATIVE = _verbs(_WITH_DATIVE)
WITH_PREPOSITION = _verbs(_WITH_PREPOSITION)
WITH_RECEIVER = _verbs(_WITH_RECEIVER)
ACTIVITIES = _verbs(_ACTIVITIES)
SEPARABLE_ACTIVITIES = _verbs(_SEPARABLE_ACTIVITIES)
DWELLING = _verbs(_DWELLING)
MOTIONS = _verbs(_MOTIONS)
PLACINGS = _verbs(_PLACINGS)
POSTURES = _verbs(_POSTURES)
SAYING = _verbs(_SAYING)
INTENDING = _verbs(_INTENDING)
WEATHER = _verbs(_WEATHER)
BE = _state("be", "sein", SEIN, WAR)
HAVE = _state("have", "haben", HABEN, HATTE, _objects(["goods", "animal"]))
