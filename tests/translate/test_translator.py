"""Lines in, lines out: in order, all of them, in any company."""

import multiprocessing
from dataclasses import replace
from functools import partial

import pytest
import torch

from models.sample import SETTINGS
from unisono.errors import DataError
from unisono.models.transformer import build_model
from unisono.text.load import BytePieces
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers
from unisono.translate.sampling import sample
from unisono.translate.settings import Decoding, PieceSampling
from unisono.translate.translator import SearchChunk, Translator

TOKENIZERS = Tokenizers(*[BytePieces()] * 2)
LINES = ["to be or not to be", "", "a", "that is the question", "   ", "\u200b", "Ünïcödé"]


def translator(**choices):
    torch.manual_seed(5)
    model = build_model(SETTINGS, BytePieces.size).eval()
    with torch.no_grad():
        model.embeddings["shared"].mul_(2.0)
    decoding = Decoding(beam=2, max_ratio=1.0, max_extra=3)
    return Translator([model], TOKENIZERS, decoding, **choices)


def test_every_line_gets_its_translation_in_its_place():
    batched = translator()
    translations = batched.translate(LINES)
    assert len(translations) == len(LINES)
    assert translations == [batched.translate([line])[0] for line in LINES]
    assert len(set(translations)) > 2


def test_batches_of_any_size_translate_the_same():
    expected = translator().translate(LINES)
    assert translator(tokens_per_batch=1).translate(LINES) == expected
    assert translator(tokens_per_batch=25).translate(LINES[::-1]) == expected[::-1]


def test_empty_lines_stay_empty_and_do_not_touch_the_model():
    broken = Translator([], TOKENIZERS)
    assert broken.translate(["", "  ", "\t\u200b"]) == ["", "", ""]
    assert broken.translate([]) == []


def test_a_stream_gives_what_a_list_gives_and_reads_no_further_than_it_must():
    read = []

    def lines():
        for line in LINES:
            read.append(line)
            yield line

    streaming = translator()
    stream = streaming.translate_stream(lines(), batch_lines=2)
    first = next(stream)
    assert read == LINES[:2]
    assert [line.text for line in [first, *stream]] == streaming.translate(LINES)


def test_a_long_line_is_cut_into_even_chunks_and_nothing_is_lost():
    short = translator(max_pieces=8)
    line = "abcdefghijklmnopqrstu"  # 21 bytes: 7 + 7 + 7, not 8 + 8 + 5
    chunks = ["abcdefg", "hijklmn", "opqrstu"]
    assert short.translate([line]) == [" ".join(short.translate(chunks))]
    parts = [translation.parts for translation in short.translations([line, "ab", ""])]
    assert parts == [3, 1, 0]


def test_a_long_line_is_split_between_sentences_and_clauses():
    short = translator(max_pieces=20, language="en")
    line = "Mr. Ho sat down. It rained, so we stayed."
    chunks = ["Mr. Ho sat down.", "It rained,", "so we stayed."]
    assert short.translate([line]) == [" ".join(short.translate(chunks))]


@pytest.mark.parametrize("max_pieces", [1, 2, 7, 21, 22])
def test_splitting_keeps_every_piece(max_pieces):
    text = "Ünïcödé, wörds. And möre"
    [ids] = BytePieces().encode([text])
    chunks = translator(max_pieces=max_pieces)._chunks([], text, ids)
    spaces = BytePieces().encode([" "])[0]
    kept = [piece for piece in ids if [piece] != spaces]
    assert [piece for chunk in chunks for piece in chunk if [piece] != spaces] == kept
    assert max(map(len, chunks)) <= max_pieces


def test_the_longest_lines_come_first_and_fit_the_budget():
    lengths = [3, 9, 1, 4, 4, 10]
    batches = list(translator(tokens_per_batch=12)._batches(lengths))
    assert batches == [[5], [1], [3, 4, 0], [2]]


def test_for_several_workers_batches_shrink_towards_the_end():
    lengths = [10] * 100
    alone = [len(batch) for batch in translator(tokens_per_batch=160)._batches(lengths)]
    assert alone == [16] * 6 + [4]
    shared = list(translator(tokens_per_batch=160)._batches(lengths, workers=2))
    assert [place for batch in shared for place in batch] == list(range(100))
    sizes = [len(batch) for batch in shared]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[:3] == [16, 16, 16]
    assert sizes[-2:] == [2, 1]


@pytest.mark.ranks
@pytest.mark.parametrize("batch_lines", [150, 1000])
def test_several_processes_translate_what_one_does(batch_lines):
    lines = [line * (number % 4) for number in range(60) for line in LINES[:4]]
    alone = translator()
    expected = list(alone.translate_stream(lines, batch_lines))
    assert [line.text for line in expected] == alone.translate(lines)
    assert list(alone.translate_stream(lines, batch_lines, workers=2)) == expected


@pytest.mark.ranks
@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (2, 1)])
def test_workers_have_one_thread_each_and_their_errors_come_through(workers, threads):
    telling = translator()

    def tell(source):
        raise DataError(f"{torch.get_num_threads()} threads")

    telling.models[0].encode = tell
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(DataError, match=f"{threads} threads"):
            list(telling.translate_stream(["a"] * 150, workers=workers))
    finally:
        torch.set_num_threads(before)


@pytest.mark.ranks
def test_whoever_stops_listening_leaves_no_process_behind():
    before = set(multiprocessing.active_children())
    stream = translator().translate_stream(["a"] * 150, workers=2)
    next(stream)
    assert len(set(multiprocessing.active_children()) - before) == 2
    stream.close()
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize(
    ("line", "written", "choices"),
    [
        ("„to be“ or ’not’", "\"to be\" or 'not'", {"plain_quotes": True}),
        ("ẞẞẞ", "ßßß", {"lowercase": True}),
    ],
)
def test_lines_are_written_as_the_model_learnt_them(line, written, choices):
    as_it_is, expected = translator().translate([line, written])
    normalised = translator(normalisation=Normalisation(**choices))
    assert normalised.translate([line]) == [expected] != [as_it_is]


def test_a_line_feed_inside_a_line_is_a_space():
    assert translator().translate(["a\nb", "c"]) == translator().translate(["a b", "c"])


def drawing(**choices):
    return translator(sampling=PieceSampling(seed=7), **choices)


@pytest.mark.ranks
def test_what_is_drawn_depends_on_the_seed_and_the_place_alone():
    lines = [line[:5] or "x" for line in LINES] * 15
    whole = drawing().translate(lines)
    for place in (0, 8, 100):
        assert (
            drawing().translations(lines[place : place + 1], first=place)[0].text
            == whole[place]
        )
    assert drawing(tokens_per_batch=25).translate(lines[:14]) == whole[:14]
    stream = drawing().translate_stream(lines, batch_lines=104, workers=2)
    assert [line.text for line in stream] == whole
    assert translator(sampling=PieceSampling(seed=8)).translate(lines) != whole
    assert whole[0] != whole[len(LINES)]  # the same line elsewhere draws something else


def test_pieces_that_are_bytes_cannot_break_a_line_in_two():
    breaks = {*BytePieces().encode(["\r\n"])[0]}
    at_random = translator(sampling=PieceSampling(temperature=50.0, seed=1))
    drawn = at_random._search([SearchChunk([5], [], (n, 0)) for n in range(100)])
    assert any(breaks.intersection(best.ids) for [best] in drawn)
    texts = at_random.translate(["\x01"] * 100)
    assert not any({"\r", "\n"}.intersection(text) for text in texts)


def test_cuts_and_a_low_temperature_lead_to_the_likeliest_pieces():
    greedy = replace(translator(), decoding=Decoding(beam=1, max_ratio=1.0, max_extra=3))
    expected = greedy.translate(LINES)
    for choice in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert replace(greedy, sampling=PieceSampling(**choice)).translate(LINES) == expected
    assert replace(greedy, sampling=PieceSampling()).translate(LINES) != expected


@torch.no_grad()
def test_pieces_are_drawn_as_often_as_the_model_says():
    model, source = translator().models[0], torch.tensor([[8, 9, 3]])
    logs = model(source, torch.tensor([[2]]))[0, 0].double()
    logs[[0, 2]] = -torch.inf
    expected = logs.softmax(0)
    draw = partial(
        sample, [model], decoding=Decoding(max_ratio=0.1, max_extra=1), sampling=PieceSampling()
    )
    found = draw(source=source.expand(3000, 3), keys=[(n,) for n in range(3000)])
    firsts = [(*one.ids, 3)[0] for one in found]
    for piece in expected.topk(5).indices.tolist():
        share = float(expected[piece])
        assert abs(firsts.count(piece) / 3000 - share) < 4 * (share / 3000) ** 0.5


def test_a_translation_begins_with_its_prefix_and_goes_on_as_the_model_would():
    with_prefix = translator().translations(["to be", "or not", "x"], ["abc", "", "de"])
    assert [line.text[:3] for line in with_prefix][0] == "abc"
    assert with_prefix[1].text == translator().translate(["or not"])[0]
    assert with_prefix[2].text.startswith("de")
    drawn = drawing().translations(["to be"], ["abc"])
    assert drawn[0].text.startswith("abc")


def test_alternatives_differ_best_first_with_the_scores_that_forced_scoring_finds():
    several = replace(translator(best=3), decoding=Decoding(beam=3, max_ratio=1.0, max_extra=3))
    for line, found in zip(LINES, several.translations(LINES), strict=True):
        assert len(found.alternatives) == (3 if line.strip("\u200b ") else 0)
        scores = [one.score for one in found.alternatives]
        assert scores == sorted(scores, reverse=True)
        for one in found.alternatives:
            assert 0 < one.confidence < 1
    [found] = several.translations(["that is"])
    readable = [one for one in found.alternatives if "\ufffd" not in one.text]
    given = several.score_given(["that is"] * len(readable), [one.text for one in readable])
    for one, score in zip(readable, given, strict=True):
        if score.pieces == one.pieces:
            assert score.log_probability == pytest.approx(one.log_probability, abs=1e-4)


@torch.no_grad()
def test_given_translations_have_the_models_probability_in_any_company():
    lines, given = ["to be", "a", "or not to be"], ["sein", "", "oder nicht"]
    both = translator().score_given(lines, given)
    model = translator().models[0]
    for line, text, found in zip(lines, given, both, strict=True):
        source = torch.tensor([[*BytePieces().encode([line])[0], 3]])
        ids = [*BytePieces().encode([text])[0], 3]
        logs = model(source, torch.tensor([[2, *ids[:-1]]])).log_softmax(-1)[0]
        expected = sum(float(logs[n, piece]) for n, piece in enumerate(ids))
        assert found.log_probability == pytest.approx(expected, abs=1e-3)
        assert found.pieces == len(ids)
    twice = replace(translator(), models=[model, model]).score_given(lines, given)
    assert [t.log_probability for t in twice] == pytest.approx(
        [one.log_probability for one in both], abs=1e-4
    )
