"""What a run that started from other weights gained, and what it forgot.

The start and the run translate the same sentences: the test set of the corpus, and the old
test set that the run directory keeps. Paired bootstrap tells a difference from chance.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from unisono.comm.collectives import all_or_none
from unisono.comm.protocol import Comm
from unisono.corpus.reader import Corpus
from unisono.models.transformer import TransformerModel
from unisono.records.events import Adapted
from unisono.records.layout import RunDirectory
from unisono.score.metrics import METRICS, score_chrf
from unisono.score.paired import compare
from unisono.train.checksums import broadcast_weights
from unisono.train.evaluation import from_all, translations
from unisono.train.loop import Session
from unisono.train.start import load_start, old_test_lines
from unisono.translate.translator import Translator

NEW, OLD = "new", "old"


def compare_with_start(
    session: Session, model: TransformerModel, corpus: Corpus, step: int, new: Sequence[str]
) -> Iterator[Adapted]:
    """Yield how the run and its start do on the new and on the old test set.

    `model` has the weights of the run, and `new` are its translations of the new test set. It
    has the weights of the start afterwards.
    """
    run, comm = Path(session.settings.run), session.parts.comm
    mine = comm.world.leads and RunDirectory(run).start.is_dir()
    if not session.settings.start.from_ or not comm.any(mine):
        return
    source, target = _old_test(comm, run)
    with session.evaluator.compiling.paused():
        old = _translate(session, model, corpus, source)
        all_or_none(comm, lambda: load_start(model, run) if comm.world.leads else None)
        broadcast_weights(comm, model)
        model.eval()
        test = session.evaluator.test
        if test is not None:
            before = translations(model, test, comm)
            yield _adapted(NEW, step, before, new, test.split.target_text())
        if source:
            before = _translate(session, model, corpus, source)
            yield _adapted(OLD, step, before, old, target)


def _old_test(comm: Comm, run: Path) -> tuple[list[str], list[str]]:
    """Return both sides of the old test set, which only the leading process has."""
    mine = old_test_lines(run) if comm.world.leads else ([], [])
    row = comm.gather_bytes(msgspec.json.encode(mine))[0]
    return msgspec.json.decode(row, type=tuple[list[str], list[str]])


def _translate(
    session: Session, model: TransformerModel, corpus: Corpus, lines: list[str]
) -> list[str]:
    """Return the translations of all `lines`; each process makes its share of them."""
    settings, world = session.settings, session.parts.comm.world
    translator = Translator(
        [model.eval()],
        corpus.tokenizers(),
        settings.decoding,
        normalisation=corpus.normalisation(),
        max_pieces=settings.corpus.max_pieces,
    )
    places = range(world.rank, len(lines), world.size)
    translated = translator.translate([lines[place] for place in places])
    found = from_all(session.parts.comm, dict(zip(places, translated, strict=True)), str)
    return [found[place] for place in sorted(found)]


def _adapted(
    which: str, step: int, start: list[str], run: Sequence[str], references: list[str]
) -> Adapted:
    found = compare(METRICS["BLEU"], start, run, references)
    return Adapted(
        time=time.time(),
        step=step,
        test=which,
        sentences=len(references),
        bleu_start=found.first,
        bleu_run=found.second,
        low=found.low,
        high=found.high,
        is_chance=not found.better,
        chrf_start=score_chrf(start, references),
        chrf_run=score_chrf(run, references),
    )
