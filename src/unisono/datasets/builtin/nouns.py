"""The nouns, by family: English, gender, German nominative, genitive, plural.

A sixth column gives an English plural that no rule finds. A masculine noun whose genitive
ends in -n is weak: it has that form in the accusative and dative too.
"""

from unisono.datasets.builtin.english import plural_of
from unisono.datasets.builtin.words import Agreement, Noun

_FAMILIES = {
    "person": """
        man m Mann Mannes Männer men
        woman f Frau Frau Frauen women
        child n Kind Kindes Kinder children
        boy m Junge Jungen Jungen
        girl n Mädchen Mädchens Mädchen
        teacher m Lehrer Lehrers Lehrer
        doctor m Arzt Arztes Ärzte
        neighbour m Nachbar Nachbarn Nachbarn
        student m Student Studenten Studenten
        friend m Freund Freundes Freunde
        uncle m Onkel Onkels Onkel
        aunt f Tante Tante Tanten
        brother m Bruder Bruders Brüder
        sister f Schwester Schwester Schwestern
        grandmother f Großmutter Großmutter Großmütter
        grandfather m Großvater Großvaters Großväter
        daughter f Tochter Tochter Töchter
        son m Sohn Sohnes Söhne
        chef m Koch Kochs Köche
        painter m Maler Malers Maler
        baker m Bäcker Bäckers Bäcker
        farmer m Bauer Bauern Bauern
        queen f Königin Königin Königinnen
        king m König Königs Könige
        nurse f Krankenschwester Krankenschwester Krankenschwestern
        actress f Schauspielerin Schauspielerin Schauspielerinnen
        waitress f Kellnerin Kellnerin Kellnerinnen
        guest m Gast Gastes Gäste
        driver m Fahrer Fahrers Fahrer
        judge m Richter Richters Richter
        customer m Kunde Kunden Kunden
        colleague m Kollege Kollegen Kollegen
        lady f Dame Dame Damen
        thief m Dieb Diebes Diebe thieves
        """,
    "animal": """
        dog m Hund Hundes Hunde
        cat f Katze Katze Katzen
        horse n Pferd Pferdes Pferde
        bird m Vogel Vogels Vögel
        cow f Kuh Kuh Kühe
        mouse f Maus Maus Mäuse mice
        bear m Bär Bären Bären
        duck f Ente Ente Enten
        goat f Ziege Ziege Ziegen
        rabbit n Kaninchen Kaninchens Kaninchen
        fox m Fuchs Fuchses Füchse
        pig n Schwein Schweins Schweine
        lion m Löwe Löwen Löwen
        snake f Schlange Schlange Schlangen
        """,
    "food": """
        apple m Apfel Apfels Äpfel
        cake m Kuchen Kuchens Kuchen
        egg n Ei Eis Eier
        potato f Kartoffel Kartoffel Kartoffeln
        tomato f Tomate Tomate Tomaten
        pear f Birne Birne Birnen
        soup f Suppe Suppe Suppen
        sausage f Wurst Wurst Würste
        carrot f Karotte Karotte Karotten
        roll n Brötchen Brötchens Brötchen
        """,
    "drink": """
        water n Wasser Wassers Wasser
        milk f Milch Milch Milch
        coffee m Kaffee Kaffees Kaffees
        tea m Tee Tees Tees
        juice m Saft Saftes Säfte
        beer n Bier Biers Biere
        wine m Wein Weins Weine
        """,
    "clothing": """
        hat m Hut Hutes Hüte
        coat m Mantel Mantels Mäntel
        shirt n Hemd Hemdes Hemden
        shoe m Schuh Schuhs Schuhe
        dress n Kleid Kleides Kleider
        jacket f Jacke Jacke Jacken
        skirt m Rock Rocks Röcke
        glove m Handschuh Handschuhs Handschuhe
        """,
    "text": """
        book n Buch Buches Bücher
        letter m Brief Briefes Briefe
        newspaper f Zeitung Zeitung Zeitungen
        novel m Roman Romans Romane
        poem n Gedicht Gedichts Gedichte
        card f Karte Karte Karten
        """,
    "tool": """
        key m Schlüssel Schlüssels Schlüssel
        bag f Tasche Tasche Taschen
        cup f Tasse Tasse Tassen
        plate m Teller Tellers Teller
        knife n Messer Messers Messer knives
        spoon m Löffel Löffels Löffel
        clock f Uhr Uhr Uhren
        picture n Bild Bildes Bilder
        bottle f Flasche Flasche Flaschen
        umbrella m Regenschirm Regenschirms Regenschirme
        ring m Ring Ringes Ringe
        ball m Ball Balles Bälle
        flower f Blume Blume Blumen
        glass n Glas Glases Gläser
        basket m Korb Korbes Körbe
        guitar f Gitarre Gitarre Gitarren
        violin f Geige Geige Geigen
        candle f Kerze Kerze Kerzen
        suitcase m Koffer Koffers Koffer
        mirror m Spiegel Spiegels Spiegel
        gift n Geschenk Geschenks Geschenke
        """,
    "device": """
        lamp f Lampe Lampe Lampen
        radio n Radio Radios Radios
        computer m Computer Computers Computer
        machine f Maschine Maschine Maschinen
        camera f Kamera Kamera Kameras
        """,
    "opening": """
        door f Tür Tür Türen
        window n Fenster Fensters Fenster
        gate n Tor Tores Tore
        """,
    "furniture": """
        table m Tisch Tisches Tische
        chair m Stuhl Stuhls Stühle
        bed n Bett Bettes Betten
        shelf n Regal Regals Regale shelves
        cupboard m Schrank Schranks Schränke
        bench f Bank Bank Bänke
        box f Kiste Kiste Kisten
        piano n Klavier Klaviers Klaviere
        """,
    "vehicle": """
        car n Auto Autos Autos
        bicycle n Fahrrad Fahrrads Fahrräder
        boat n Boot Bootes Boote
        ship n Schiff Schiffs Schiffe
        train m Zug Zuges Züge
        """,
    "indoors": """
        house n Haus Hauses Häuser
        school f Schule Schule Schulen
        church f Kirche Kirche Kirchen
        kitchen f Küche Küche Küchen
        museum n Museum Museums Museen
        hotel n Hotel Hotels Hotels
        theatre n Theater Theaters Theater
        library f Bibliothek Bibliothek Bibliotheken
        castle n Schloss Schlosses Schlösser
        hospital n Krankenhaus Krankenhauses Krankenhäuser
        office n Büro Büros Büros
        """,
    "outdoors": """
        garden m Garten Gartens Gärten
        city f Stadt Stadt Städte
        village n Dorf Dorfes Dörfer
        forest m Wald Waldes Wälder
        park m Park Parks Parks
        """,
    "top": """
        bridge f Brücke Brücke Brücken
        island f Insel Insel Inseln
        mountain m Berg Berges Berge
        roof n Dach Daches Dächer
        street f Straße Straße Straßen
        """,
    "edge": """
        station m Bahnhof Bahnhofs Bahnhöfe
        lake m See Sees Seen
        river m Fluss Flusses Flüsse
        beach m Strand Strandes Strände
        """,
}
_GENDERS = {"m": Agreement.MASCULINE, "f": Agreement.FEMININE, "n": Agreement.NEUTER}


def _noun(line: str, family: str) -> Noun:
    english, gender, nominative, genitive, plural, *english_plural = line.split()
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


NOUNS = tuple(
    _noun(line, family)
    for family, table in _FAMILIES.items()
    for line in table.strip().splitlines()
)


def nouns_of(*families: str) -> tuple[Noun, ...]:
    """Pick the nouns of the named families, in the order of the lexicon."""
    unknown = set(families) - _FAMILIES.keys()
    if unknown:
        raise KeyError(f"no such family of nouns: {sorted(unknown)}")
    return tuple(noun for noun in NOUNS if noun.family in families)


PORTABLE = ("food", "clothing", "text", "tool", "device")
GOODS = (*PORTABLE, "furniture", "vehicle")
PLACES = ("indoors", "outdoors", "top", "edge")
