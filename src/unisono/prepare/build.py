"""From text files to a corpus, in two passes.

The first reads every file once, normalises and filters, and leaves the kept pairs on disk.
Then the pieces are learnt from them, and the second pass encodes. All of it happens in a
temporary directory that becomes the corpus in one step at the end.
"""

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from unisono import __version__
from unisono.atomic import new_directory
from unisono.config.settings import CorpusSettings, Data
from unisono.corpus.layout import PIECES
from unisono.corpus.manifest import Manifest, size_of_split
from unisono.corpus.writer import seal
from unisono.errors import ConfigError, DataError
from unisono.prepare.cleaning import Drops
from unisono.prepare.encoding import Encoding
from unisono.prepare.existing import check_up_to_date, is_taken, recorded_settings
from unisono.prepare.gathering import Gathering
from unisono.prepare.inputs import RawPair, list_inputs
from unisono.prepare.lock import only_one, remove_leftovers
from unisono.prepare.progress import Progress
from unisono.prepare.spool import Spool
from unisono.text.sentence_pieces import learn_pieces
from unisono.text.tokenizer import Tokenizer

LEARNING_LINES = 2_000_000


def prepare_corpus(data: Data, settings: CorpusSettings) -> Iterator[Progress]:
    """Prepare the corpus of `settings.directory`, telling how far it is.

    Nothing happens until the iterator is drawn from, and the corpus is there when it ends.
    A corpus already there is left alone if it is up to date, and refused if it is not.
    """
    inputs = list_inputs(data)
    path = Path(settings.directory)
    try:
        with only_one(path):
            remove_leftovers(path)
            if is_taken(path):
                yield from check_up_to_date(path, data, settings, inputs)
                return
            with new_directory(path) as directory:
                yield from _build(data, settings, inputs, directory)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error}",
            where="corpus.directory",
            fix="make room or give permission there, or choose another directory",
        ) from error


def _build(
    data: Data, settings: CorpusSettings, inputs: list[RawPair], directory: Path
) -> Iterator[Progress]:
    drops = Drops()
    spool_path = directory / "spool"
    spool_path.mkdir()
    text = Gathering(settings, spool_path, drops)
    yield from text.read(inputs)
    pairs = sum(spool.pairs for spool in text.spools)
    _check_some_left(pairs, drops)

    yield Progress("learning pieces", 0, pairs)
    tokenizer = _learn(text.spools, settings)
    (directory / PIECES).write_bytes(tokenizer.model)
    yield Progress("learning pieces", pairs, pairs)

    encoding = Encoding(settings, tokenizer, directory, drops)
    for held_out in text.held_out:
        encoding.write_held_out(held_out)
    yield from encoding.write_train(text.spools)
    _check_some_left(sum(block.pairs for block in encoding.blocks["train"]), drops)
    shutil.rmtree(spool_path)
    seal(directory, _manifest(data, settings, text, encoding, tokenizer, drops))


def _learn(spools: list[Spool], settings: CorpusSettings) -> Tokenizer:
    pairs = sum(spool.pairs for spool in spools)
    every = -(-2 * pairs // LEARNING_LINES)
    return learn_pieces(
        chain.from_iterable(spool.lines(every) for spool in spools),
        size=settings.vocabulary,
        character_coverage=settings.character_coverage,
    )


def _check_some_left(pairs: int, drops: Drops) -> None:
    if pairs:
        return
    summary = drops.summary()
    reasons = ", ".join(f"{reason}: {dropped.count}" for reason, dropped in summary.items())
    raise DataError(
        f"no training pairs are left after cleaning ({reasons})",
        where="[[data.train]]",
        fix="check that the files hold two languages; see the limits in [corpus]",
    )


def _manifest(
    data: Data,
    settings: CorpusSettings,
    text: Gathering,
    encoding: Encoding,
    tokenizer: Tokenizer,
    drops: Drops,
) -> Manifest:
    return Manifest(
        source_language=data.source_language,
        target_language=data.target_language,
        vocabulary=tokenizer.size,
        tokenizer=tokenizer.kind,
        created_with=__version__,
        inputs=text.records,
        splits={name: size_of_split(blocks) for name, blocks in encoding.blocks.items()},
        read_pairs=sum(record.source.lines for record in text.records),
        dropped=drops.summary(),
        settings=recorded_settings(settings),
    )
