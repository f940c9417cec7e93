import msgspec

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import CorpusManifest, SplitSize
from unisono.corpus.reader import differences, recorded_settings

LANGUAGES = ("en", "de")


def manifest(settings, **changes):
    made = CorpusManifest(
        source_language="en",
        target_language="de",
        vocabulary=5,
        tokenizer="bytes",
        created_with="test",
        splits={"train": SplitSize(pairs=0, source_tokens=0, target_tokens=0, blocks=[])},
        read_pairs=0,
        settings=settings,
    )
    return msgspec.structs.replace(made, **changes)


def names(made, settings, languages=LANGUAGES):
    return [difference.name for difference in differences(made, settings, languages)]


def test_the_same_settings_agree_wherever_the_corpus_lies():
    settings = CorpusSettings(directory="a", vocabulary=90, pieces_model="x/given.model")
    moved = msgspec.structs.replace(settings, directory="b", pieces_model="y/given.model")
    assert names(manifest(recorded_settings(settings)), moved) == []
    assert "x/" not in str(recorded_settings(settings))


def test_all_that_differs_is_named():
    made = manifest(recorded_settings(CorpusSettings(directory="a")), target_language="nl")
    settings = CorpusSettings(directory="a", vocabulary=90, pieces="unigram", invalid="drop")
    assert names(made, settings) == ["pieces", "target_language", "vocabulary"]
    (difference,) = differences(made, CorpusSettings(directory="a"), LANGUAGES)
    assert (difference.then, difference.now) == ("nl", "de")


def test_how_pieces_are_learnt_is_of_no_consequence_if_they_are_given():
    given = CorpusSettings(directory="a", pieces_model="x.model")
    other = msgspec.structs.replace(given, vocabulary=90, pieces="unigram")
    assert names(manifest(recorded_settings(given)), other) == []
    learnt = msgspec.structs.replace(other, pieces_model="")
    assert names(manifest(recorded_settings(given)), learnt) == [
        "pieces",
        "pieces_model",
        "vocabulary",
    ]


def test_a_setting_that_is_missing_had_the_value_that_is_the_default_now():
    recorded = recorded_settings(CorpusSettings(directory="a"))
    for name in ("pieces", "drop_wrong_script", "learning_lines"):
        del recorded[name]
    assert names(manifest(recorded), CorpusSettings(directory="a")) == []
    other = CorpusSettings(directory="a", pieces="unigram", drop_wrong_script=False)
    assert names(manifest(recorded), other) == ["drop_wrong_script", "pieces"]


def test_a_corpus_made_without_settings_agrees_with_all():
    settings = CorpusSettings(directory="a", vocabulary=90)
    assert names(manifest({}), settings) == []
    assert names(manifest({}), settings, ("en", "fr")) == ["target_language"]
