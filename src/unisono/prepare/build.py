"""From text files to a corpus, in two passes.

The first reads every file once, normalises and filters, and leaves the kept pairs on disk.
Then the pieces are learnt from them, and the second pass encodes. All of it happens in a
temporary directory that becomes the corpus in one step at the end.
"""

import shutil
from collections.abc import Generator
from pathlib import Path

import msgspec

from unisono import __version__
from unisono.atomic import new_directory
from unisono.config.settings import CorpusSettings, Data
from unisono.corpus.manifest import CorpusManifest, Input, Learning, size_of_split
from unisono.corpus.reader import recorded_settings
from unisono.corpus.writer import seal
from unisono.errors import DataError
from unisono.lock import only_one
from unisono.prepare.extend import add_sources, reweight
from unisono.prepare.first_pass.clean_text import gather
from unisono.prepare.first_pass.drops import OVERLAP, Drops
from unisono.prepare.first_pass.filters import PairFilter
from unisono.prepare.first_pass.held_out import HeldOut, read_held_out
from unisono.prepare.first_pass.languages import check_installed
from unisono.prepare.inputs import list_inputs
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode_chunk import Pieces
from unisono.prepare.second_pass.vocabulary import (
    check_held_out,
    check_train,
    learn,
    load_given,
)
from unisono.prepare.second_pass.write import Encoding
from unisono.prepare.space import cannot_write, check_room, text_bytes_of
from unisono.prepare.up_to_date import compare, is_taken, remove_leftovers
from unisono.text.tokenizer import Tokenizers

# Less text is done sooner than other processes have started.
_SMALL_BYTES = 8_000_000

_BUSY = "wait until it has finished, or choose another corpus.directory"


def prepare_corpus(
    data: Data, settings: CorpusSettings, *, workers: int = 1
) -> Generator[PrepareProgress, None, None]:
    """Prepare the corpus of `settings.directory`, telling how far it is.

    Nothing happens until the iterator is drawn from, and the corpus is there when it ends.
    A corpus already there is left alone if it is up to date, added to if there is more
    training text than before, and refused otherwise. With more than one worker as many
    processes are started, unless there is little to do; the result is the same.
    """
    check_installed(settings)
    inputs = list_inputs(data)
    others = workers if workers > 1 and text_bytes_of(inputs) >= _SMALL_BYTES else 0
    assignment = PrepareJob(data, settings, inputs, others)
    path = assignment.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with only_one(path, doing=f"preparing {path}", fix=_BUSY):
            remove_leftovers(path)
            if is_taken(path):
                yield from _use(assignment)
                return
            check_room(path.parent, inputs, settings)
            with new_directory(path) as directory:
                yield from _build(assignment, directory)
    except OSError as error:
        raise cannot_write(assignment, error) from error


def _use(assignment: PrepareJob) -> Generator[PrepareProgress, None, None]:
    comparison = yield from compare(assignment)
    added = len(comparison.added)
    if added:
        yield from add_sources(assignment, comparison)
        yield PrepareProgress("added", added, len(assignment.train), "sources")
    elif comparison.weights_changed:
        reweight(assignment, comparison.manifest)
        yield PrepareProgress("weights changed", 1, 1, "corpora")
    else:
        yield PrepareProgress("up to date", 1, 1, "corpora")


def _build(assignment: PrepareJob, directory: Path) -> Generator[PrepareProgress, None, None]:
    drops, spool = Drops(), directory / "spool"
    spool.mkdir()
    given = load_given(assignment.settings, assignment.tags)
    sets = [read_held_out(raw, assignment.normalise) for raw in assignment.held_out]
    if given:
        check_held_out(given[0], sets)
    held_out = HeldOut((pair for held in sets for pair in held.pairs), assignment.tags)
    judge = PairFilter(assignment, held_out, spool)
    texts = yield from gather(assignment, assignment.train, judge, drops)
    _check_some_left(sum(text.pairs for text in texts), drops)

    tokenizers, learning = given or (yield from learn(texts, assignment, spool))
    for name, content in tokenizers.files.items():
        (directory / name).write_bytes(content)
    encoding = Encoding(tokenizers, directory, drops)
    for held in sets:
        encoding.write_held_out(held)
        drops.add_all(held.dropped.summary())
    pieces = Pieces(tokenizers.kind, directory, tokenizers.joint, assignment.tags)
    yield from encoding.write_train(texts, assignment, pieces)
    train = size_of_split(encoding.blocks["train"])
    _check_some_left(train.pairs, drops)
    check_train(train, encoding.unknown, learning)
    shutil.rmtree(spool)
    records = [*(held.record for held in sets), *(text.record for text in texts)]
    manifest = _manifest(assignment, records, encoding, tokenizers, learning, drops)
    overlap = sum(text.kept_overlap for text in texts)
    seal(directory, msgspec.structs.replace(manifest, kept_overlap=overlap))


def _check_some_left(pairs: int, drops: Drops) -> None:
    if pairs:
        return
    summary = drops.summary()
    reasons = ", ".join(f"{reason}: {dropped.count}" for reason, dropped in summary.items())
    most = max(summary, key=lambda reason: summary[reason].count, default="")
    raise DataError(
        f"no training pairs are left after cleaning ({reasons})",
        where="[[data.train]]",
        fix="name text that is not in [data.valid] or [data.test] too"
        if most == OVERLAP
        else "check that the files hold two languages; see the limits in [corpus]",
    )


def _manifest(
    assignment: PrepareJob,
    records: list[Input],
    encoding: Encoding,
    tokenizers: Tokenizers,
    learning: Learning,
    drops: Drops,
) -> CorpusManifest:
    return CorpusManifest(
        source_language=assignment.data.source_language,
        target_language=assignment.data.target_language,
        vocabulary=tokenizers.target.size,
        source_vocabulary=0 if tokenizers.joint else tokenizers.source.size,
        tokenizer=tokenizers.kind,
        tags=list(assignment.tags),
        created_with=__version__,
        inputs=records,
        splits={name: size_of_split(blocks) for name, blocks in encoding.blocks.items()},
        read_pairs=sum(record.source.lines for record in records),
        dropped=drops.summary(),
        learning=learning,
        first_pairs=encoding.first_pairs,
        settings=recorded_settings(assignment.settings),
    )
