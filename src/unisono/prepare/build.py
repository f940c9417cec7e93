"""From text files to a corpus, in two passes.

First pass (first_pass/): read → decode → normalise → filter → clean text on disk.
Second pass (second_pass/): learn the vocabulary → encode → write.

Both work in a temporary directory, which becomes the corpus in one step at the end.
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
from unisono.prepare.disk_space import cannot_write, check_disk_space, text_bytes_of
from unisono.prepare.extend import add_sources, reweight
from unisono.prepare.first_pass.clean_text import clean_training_text, read_held_out
from unisono.prepare.first_pass.filters import OVERLAP, Drops
from unisono.prepare.first_pass.languages import check_installed
from unisono.prepare.job import PrepareJob, PrepareProgress, check_tags, list_inputs
from unisono.prepare.second_pass.encode import TokenizerFiles
from unisono.prepare.second_pass.vocabulary import (
    check_held_out,
    check_train,
    learn_vocabulary,
    load_given,
)
from unisono.prepare.second_pass.write import SplitWriter
from unisono.prepare.up_to_date import compare_corpus, is_taken, remove_leftovers
from unisono.text.inherited import InheritedPieces
from unisono.text.tokenizer import Tokenizers

# With less text one process is done before others have started.
_SMALL_BYTES = 8_000_000

_BUSY = "wait until it has finished, or choose another corpus.directory"


def prepare_corpus(
    data: Data,
    settings: CorpusSettings,
    *,
    workers: int = 1,
    like: InheritedPieces | None = None,
) -> Generator[PrepareProgress, None, None]:
    """Prepare the corpus of `settings.directory`, and yield the progress.

    Nothing happens until the caller iterates; the corpus is complete when the iterator ends.
    An existing corpus stays as it is if it is up to date, is extended if there is more
    training text than before, and is refused otherwise. With more than one worker as many
    processes start, unless there is little text; the result is the same. The pieces are learnt
    from the text, unless it is to be encoded `like` that of another model.
    """
    check_installed(settings)
    inputs = list_inputs(data)
    others = workers if workers > 1 and text_bytes_of(inputs) >= _SMALL_BYTES else 0
    job = PrepareJob(data, settings, inputs, others, like)
    path = job.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with only_one(path, doing=f"preparing {path}", fix=_BUSY):
            remove_leftovers(path)
            if is_taken(path):
                yield from _update(job)
                return
            check_disk_space(path.parent, inputs, settings)
            with new_directory(path) as directory:
                yield from _build(job, directory)
    except OSError as error:
        raise cannot_write(job, error) from error


def _update(job: PrepareJob) -> Generator[PrepareProgress, None, None]:
    comparison = yield from compare_corpus(job)
    added = len(comparison.added)
    if added:
        yield from add_sources(job, comparison)
        yield PrepareProgress("added", added, len(job.train), "sources")
    elif comparison.weights_changed:
        reweight(job, comparison.manifest)
        yield PrepareProgress("weights changed", 1, 1, "corpora")
    else:
        yield PrepareProgress("up to date", 1, 1, "corpora")


def _build(job: PrepareJob, directory: Path) -> Generator[PrepareProgress, None, None]:
    drops, scratch = Drops(), directory / "clean"
    scratch.mkdir()
    check_tags(job)
    given = load_given(job.settings, job.tags, job.like)
    held_out = read_held_out(job)
    if given:
        check_held_out(given[0], held_out)

    # First pass: read → decode → normalise → filter → clean text on disk.
    texts = yield from clean_training_text(job, job.train, held_out, scratch, drops)
    _check_some_left(sum(text.pairs for text in texts), drops)

    # Second pass: learn the vocabulary → encode → write.
    tokenizers, learning = given or (yield from learn_vocabulary(texts, job, scratch))
    for name, content in tokenizers.files.items():
        (directory / name).write_bytes(content)
    splits = SplitWriter(tokenizers, directory, drops)
    for held in held_out:
        splits.write_held_out(held)
        drops.add_all(held.dropped.summary())
    files = TokenizerFiles(tokenizers.kind, directory, tokenizers.joint, job.tags)
    yield from splits.write_train(texts, job, files)

    train = size_of_split(splits.blocks["train"])
    _check_some_left(train.pairs, drops)
    check_train(train, splits.unknown, learning)
    shutil.rmtree(scratch)
    records = [*(held.record for held in held_out), *(text.record for text in texts)]
    manifest = _manifest(job, records, splits, tokenizers, learning, drops)
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


def _normalised(job: PrepareJob) -> dict[str, bool]:
    """Return how the text was normalised, which may be inherited."""
    return {
        "plain_quotes": job.normalise.plain_quotes,
        "lowercase": job.normalise.lowercase,
    }


def _manifest(
    job: PrepareJob,
    records: list[Input],
    splits: SplitWriter,
    tokenizers: Tokenizers,
    learning: Learning,
    drops: Drops,
) -> CorpusManifest:
    return CorpusManifest(
        source_language=job.data.source_language,
        target_language=job.data.target_language,
        vocabulary=tokenizers.target.size,
        source_vocabulary=tokenizers.source_vocabulary,
        tokenizer=tokenizers.kind,
        tags=list(job.tags),
        created_with=__version__,
        inputs=records,
        splits={name: size_of_split(blocks) for name, blocks in splits.blocks.items()},
        read_pairs=sum(record.source.lines for record in records),
        dropped=drops.summary(),
        learning=learning,
        first_pairs=splits.first_pairs,
        settings=recorded_settings(job.settings) | _normalised(job),
    )
