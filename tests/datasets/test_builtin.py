"""The built-in corpus as a whole: its size, its splits, and that it needs a real model."""

import re
from collections import Counter, defaultdict
from hashlib import sha256
from itertools import islice

import pytest
import sacrebleu

from unisono.datasets.builtin.english import third_person_of
from unisono.datasets.builtin.generate import generate, is_held_out, stream
from unisono.datasets.builtin.lexicon import ADJECTIVES, NOUNS, VERB_GROUPS

_WORD = re.compile(r"[\w'-]+")


def words(text):
    return _WORD.findall(text.lower())


def test_there_are_two_hundred_thousand_distinct_pairs(builtin):
    assert len(builtin.train) == 200_000
    assert len({pair.source for pair in builtin.train}) == 200_000


def test_no_sentence_is_in_two_sets(builtin):
    assert len(builtin.valid) == len(builtin.test) == 1_000
    everything = builtin.train + builtin.valid + builtin.test
    assert len({pair.source for pair in everything}) == 202_000


def test_the_same_seed_gives_the_same_corpus():
    first, second = (generate(seed=7, train=500, valid=50, test=50) for _ in range(2))
    other = generate(seed=8, train=500, valid=50, test=50)
    assert (first.train, first.valid, first.test) == (second.train, second.valid, second.test)
    assert first.train != other.train


def test_more_training_pairs_leave_validation_and_test_as_they_are(builtin):
    small = generate(seed=1, train=100, valid=1_000, test=1_000)
    assert small.valid == builtin.valid
    assert small.test == builtin.test
    assert small.train == builtin.train[:100]


def test_one_english_sentence_has_one_translation():
    translations = {}
    for pair in islice(stream(seed=3), 40_000):
        assert translations.setdefault(pair.source, pair.target) == pair.target


def test_held_out_combinations_are_only_in_the_test_set(builtin):
    for pair in builtin.train + builtin.valid:
        assert not any(map(is_held_out, pair.combinations)), pair
    for pair in builtin.test:
        assert any(map(is_held_out, pair.combinations)), pair


def test_held_out_adjectives_and_nouns_never_touch_in_the_training_text(builtin):
    """Read the text itself, and not what the grammar says about it."""
    held_out = {
        (adjective.english, form)
        for adjective in ADJECTIVES
        for noun in NOUNS
        for form in (noun.english, noun.english_plural)
        if is_held_out((adjective.english, noun.english))
    }
    assert count_neighbours(builtin.train[::3], held_out) == 0
    assert count_neighbours(builtin.test, held_out) > 200


def test_held_out_verbs_and_objects_never_meet_in_the_training_text(builtin):
    held_out = {
        (said, form)
        for verb in VERB_GROUPS["with accusative"]
        if not verb.preposition
        for said in (verb.english, third_person_of(verb.english), verb.past)
        for noun in NOUNS
        for form in (noun.english, noun.english_plural)
        if is_held_out((verb.name, noun.english))
    }
    articles = " (?:the|a|an|this|these|my|your|his|her|our|their|many|some) "
    assert count_neighbours(builtin.train[::3], held_out, articles) == 0
    assert count_neighbours(builtin.test, held_out, articles) > 20


def count_neighbours(pairs, wanted, between=" "):
    """Count the wanted pairs of words; an owner (the man's hat) is no object."""
    pattern = re.compile(rf"(?=\b(\w+){between}(\w+)(?!['\w]))")
    text = "\n".join(pair.source.lower() for pair in pairs)
    return sum(match in wanted for match in pattern.findall(text))


@pytest.fixture(scope="module")
def counts(builtin):
    """How often each word occurs in training, in English and in German."""
    return tuple(
        Counter(words(" ".join(sentences)))
        for sentences in zip(
            *((pair.source, pair.target) for pair in builtin.train), strict=True
        )
    )


def test_every_word_of_the_test_set_is_known_from_training(builtin, counts):
    english, german = counts
    assert {word for pair in builtin.test for word in words(pair.source)} <= english.keys()
    assert {word for pair in builtin.test for word in words(pair.target)} <= german.keys()


def test_every_english_word_is_seen_often_enough_to_be_learnt(counts):
    english, _ = counts
    assert min(english.values()) >= 25, english.most_common()[-5:]


def test_every_noun_and_adjective_of_the_lexicon_is_used(counts):
    english, _ = counts
    lexicon = {noun.english for noun in NOUNS} | {word.english for word in ADJECTIVES}
    assert lexicon <= english.keys()


def test_sentences_are_short_enough(builtin):
    lengths = [len(pair.source.split()) for pair in builtin.train]
    assert max(lengths) <= 20
    assert 9 <= sum(lengths) / len(lengths) <= 12


def test_every_sentence_is_well_written(builtin):
    form = re.compile(r"[A-ZÄÖÜ0-9][^.?]*(?:\d\. ?[^.?]*|\d\.\d[^.?]*)*[.?]")
    for pair in builtin.train[:10_000] + builtin.test:
        for text in (pair.source, pair.target):
            assert "  " not in text and " ," not in text and ",," not in text, text
            assert form.fullmatch(text), text


def dictionary_of(pairs):
    """For each English word the German word it goes with best, by the Dice coefficient."""
    together = defaultdict(Counter)
    english, german = Counter(), Counter()
    for pair in pairs:
        source, target = set(words(pair.source)), set(pair.target.rstrip(".?").split())
        target = {word.rstrip(",") for word in target}
        english.update(source)
        german.update(target)
        for word in source:
            together[word].update(target)
    return {
        word: max(
            sorted(counts), key=lambda other: counts[other] / (english[word] + german[other])
        )
        for word, counts in together.items()
    }


def test_word_for_word_translation_stays_under_35_bleu(builtin):
    dictionary = dictionary_of(builtin.train[:20_000])
    translations = [translate_words(pair.source, dictionary) for pair in builtin.test]
    references = [[pair.target for pair in builtin.test]]
    # Above 3, or else the baseline is broken and proves nothing.
    assert 3 < sacrebleu.corpus_bleu(translations, references).score < 35


def translate_words(text, dictionary):
    """Put the best German word in the place of each English one."""
    translated = _WORD.sub(lambda word: dictionary.get(word[0].lower(), word[0]), text)
    return translated[0].upper() + translated[1:]


def test_copying_scores_next_to_nothing(builtin):
    copies = [pair.source for pair in builtin.test]
    references = [[pair.target for pair in builtin.test]]
    assert sacrebleu.corpus_bleu(copies, references).score < 5


def test_the_bytes_are_the_same_on_every_machine():
    """Change this digest with the grammar, and know that old scores no longer compare."""
    splits = generate(seed=1, train=5_000, valid=50, test=50)
    lines = [f"{pair.source}\t{pair.target}" for pair in splits.train + splits.test]
    digest = sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "d58f4c557282ec6faf966ed5cd1d5ddd1e310757a496c1e42ba0626f00f4ece8"
