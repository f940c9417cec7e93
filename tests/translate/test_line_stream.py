"""Lines that come one after the other, against all of them at once."""

import random
from dataclasses import replace

import msgspec
import pytest

from support.random_bundles import made_bundle
from unisono.translate.line_stream import LineStream

LINES = ["to be", "", "or not to be, that is the question. Whether it is nobler to suffer", "x"]
LINES += [f"line {n} " + "and so on " * (n % 3) for n in range(20)]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return made_bundle(tmp_path_factory.mktemp("stream") / "bundle").translator()


def streamed(translator, lines, arrivals):
    """Translate lines that come before the steps in `arrivals`; ticket n is 10 times n."""
    stream, found, steps = LineStream(translator), {}, 0
    while steps <= max(arrivals) or not stream.is_empty:
        now = [n for n, step in enumerate(arrivals) if step == steps]
        stream.add([10 * n for n in now], [lines[n] for n in now])
        done = dict(stream.step())
        assert not done.keys() & found.keys()
        found |= done
        assert set(stream.tickets) == {
            10 * n for n, step in enumerate(arrivals) if step <= steps
        } - set(found)
        steps += 1
    return [found[10 * n] for n in range(len(lines))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("room", [2000, 40])
def test_when_lines_come_changes_nothing(translator, seed, room):
    expected = translator.translations(LINES)
    chance = random.Random(seed)
    arrivals = [chance.randrange(12 * seed + 1) for _ in LINES]
    found = streamed(replace(translator, tokens_per_batch=room), LINES, arrivals)
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]
        confidences = [a.confidence for a in other.alternatives]
        assert [a.confidence for a in one.alternatives] == pytest.approx(confidences, abs=1e-4)


def test_several_translations_of_each_line(translator):
    decoding = msgspec.structs.replace(translator.decoding, beam=4)
    several = replace(translator, decoding=decoding, best=3)
    found = streamed(several, LINES, [n % 5 for n in range(len(LINES))])
    texts = [[one.text for one in line.alternatives] for line in found]
    expected = several.translations(LINES)
    assert texts == [[one.text for one in line.alternatives] for line in expected]


def test_nothing_takes_more_memory_than_a_batch(translator):
    stream = LineStream(replace(translator, tokens_per_batch=60))
    stream.add(range(50), ["ten bytes."] * 50)
    found = []
    while not stream.is_empty:
        found += stream.step()
        assert len(stream._search) <= 60 // len("ten bytes.\x00")
    assert sorted(ticket for ticket, _ in found) == list(range(50))
