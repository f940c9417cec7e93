"""The page of `unisono show` about a corpus: its size, its origin and what was dropped."""

from collections.abc import Iterator
from itertools import zip_longest

from unisono.batching.plan import CorpusSource, shares
from unisono.corpus.manifest import Block, CorpusManifest, Dropped, Input, SplitSize, TextFile
from unisono.corpus.reader import Corpus
from unisono.units import amount_of_bytes

FIRST_PAIRS = 3
WIDTH = 34  # of one side of an example
HISTOGRAM_WIDTH = 18
PIECES_PER_ROW = 10  # as in the manifest's histogram


def corpus_page(corpus: Corpus) -> Iterator[str]:
    """Yield the lines of the page."""
    manifest = corpus.manifest
    languages = f"{manifest.source_language}→{manifest.target_language}"
    size = sum(file.bytes for file in manifest.files.values())
    yield f"corpus {corpus.path}: {languages}, complete, every hash verified"
    yield f"  {len(manifest.files)} files, {amount_of_bytes(size)} on disk"
    yield f"  made with unisono {manifest.created_with}"
    yield f"  fingerprint {manifest.fingerprint}"
    yield from _section("settings", _settings(manifest))
    yield from _section("read", _read(manifest.inputs))
    yield from _section("kept (source and target in pieces)", _kept(manifest))
    yield from _section(_dropped_title(manifest), _dropped(manifest))
    yield from _section("vocabulary", _vocabulary(manifest))
    yield from _section("lengths of the training sentences, in pieces", _lengths(manifest))
    yield from _section("first pairs", _first_pairs(corpus))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    if body := list(lines):
        yield from ("", title, *(f"  {line}" for line in body))


def _read(inputs: list[Input]) -> Iterator[str]:
    for given in inputs:
        files: tuple[TextFile, ...] = (given.source, given.target)
        if given.columns:
            files = (given.source,)
        for file in files:
            columns = " columns {} and {}".format(*given.columns) if given.columns else ""
            yield (
                f"{given.split:6}{file.name}{columns}: {file.lines:,} lines, "
                f"{amount_of_bytes(file.text_bytes)} of text"
            )
            yield f"{'':6}sha256 {file.sha256}"


def _kept(manifest: CorpusManifest) -> Iterator[str]:
    heads = f"{'pairs':>11}{'of':>11}{'source':>12}{'target':>12}{'text':>10}"
    yield f"{'':10}{heads} pieces/pair"
    for name, split in manifest.splits.items():
        yield _size(name, split)
        if name == "train":
            yield from _sources(split.blocks)
    blocks = manifest.splits["train"].blocks
    if any(block.weight != 1 for block in blocks):
        epoch = round(sum(block.pairs * block.weight for block in blocks))
        yield f"with these weights an epoch has {epoch:,} pairs"


def _sources(blocks: list[Block]) -> Iterator[str]:
    if len(blocks) == 1 and blocks[0].weight == 1 and not blocks[0].tag:
        return
    parts = shares([CorpusSource(block.pairs, block.weight) for block in blocks])
    for number, (block, part) in enumerate(zip(blocks, parts, strict=True), start=1):
        yield _size(f" source {number}", block)
        each = f", each pair {block.weight:g} times per epoch" if block.weight != 1 else ""
        tag = f", tagged {block.tag}" if block.tag else ""
        yield f"{'':12}{part:.1%} of an epoch{each}{tag}"


def _size(name: str, size: SplitSize | Block) -> str:
    mean = (size.source_tokens + size.target_tokens) / max(1, size.pairs)
    of = size.read_pairs
    return (
        f"{name:10}{size.pairs:>11,}{f'{of:,}' if of else '':>11}{size.source_tokens:>12,}"
        f"{size.target_tokens:>12,}{amount_of_bytes(size.text_bytes):>10}{mean:>12.1f}"
    )


def _dropped_title(manifest: CorpusManifest) -> str:
    dropped = sum(drop.count for drop in manifest.dropped_from(training=True).values())
    total = manifest.read_training_pairs
    return f"dropped {dropped:,} of {total:,} training pairs ({dropped / max(1, total):.1%})"


def _dropped(manifest: CorpusManifest) -> Iterator[str]:
    training, total = manifest.dropped_from(training=True), manifest.read_training_pairs
    for reason, dropped in training.items():
        yield f"{reason:26}{dropped.count:>12,}  {dropped.count / max(1, total):.2%}"
        yield from _examples(dropped)
    if not training:
        yield "nothing"
    for reason, dropped in manifest.dropped_from(training=False).items():
        yield f"{reason:26}{dropped.count:>12,}  (not in the counts above)"
        yield from _examples(dropped)


def _examples(dropped: Dropped) -> Iterator[str]:
    for pair in dropped.examples:
        yield f"    {_side_by_side(*pair)}"


def _settings(manifest: CorpusManifest) -> Iterator[str]:
    chosen = manifest.settings
    if not chosen:
        return
    for names in (("max_pieces", "max_length_ratio"), ("byte_fallback", "character_coverage")):
        yield ", ".join(f"{name} {_toml(chosen[name])}" for name in names if name in chosen)
    options = [name for name in ("plain_quotes", "lowercase") if chosen.get(name)]
    yield f"normalised: NFC{''.join(f', {name}' for name in options)}"
    filters = [name for name in chosen if name.startswith("drop_")]
    off = [name.removeprefix("drop_") for name in filters if not chosen[name]]
    yield f"filters turned off: {', '.join(off) or 'none'}"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _vocabulary(manifest: CorpusManifest) -> Iterator[str]:
    learning, train = manifest.learning, manifest.splits["train"]
    if not manifest.source_vocabulary:
        yield f"{manifest.vocabulary:,} pieces for both languages ({manifest.tokenizer})"
    else:
        yield (
            f"{manifest.source_vocabulary:,} pieces for {manifest.source_language}, "
            f"{manifest.vocabulary:,} for {manifest.target_language} ({manifest.tokenizer})"
        )
    if manifest.tags:
        yield f"tags: {' '.join(manifest.tags)}"
    if learning.algorithm == "given":
        yield "from given model files; sha256 " + ", ".join(learning.models)
    elif learning.algorithm == "like":
        yield "inherited from another model; sha256 " + ", ".join(learning.models)
    elif learning.algorithm:
        yield f"learnt by {learning.algorithm} from {learning.lines:,} lines"
    yield (
        f"unknown in the training set: {train.source_unknown:,} source and "
        f"{train.target_unknown:,} target pieces"
    )


def _lengths(manifest: CorpusManifest) -> Iterator[str]:
    train = manifest.splits["train"]
    most = max([1, *train.source_lengths, *train.target_lengths])
    if not train.source_lengths:
        return
    yield f"{'':11}{manifest.source_language:34}{manifest.target_language}"
    rows = zip_longest(train.source_lengths, train.target_lengths, fillvalue=0)
    for number, counts in enumerate(rows):
        first = number * PIECES_PER_ROW + 1
        sides = [
            f"{'█' * round(HISTOGRAM_WIDTH * n / most):{HISTOGRAM_WIDTH}} {n:>12,}"
            for n in counts
        ]
        yield f"{f'{first}–{first + PIECES_PER_ROW - 1}':>8}   {'   '.join(sides)}"


def _first_pairs(corpus: Corpus) -> Iterator[str]:
    for source, target in corpus.manifest.first_pairs[:FIRST_PAIRS]:
        yield f"{'train':6}{_side_by_side(source, target)}"
    for name in ("valid", "test"):
        if corpus.has(name):
            split = corpus.split(name)
            pairs = zip(split.source_text(), split.target_text(), strict=True)
            for source, target in list(pairs)[:FIRST_PAIRS]:
                yield f"{name:6}{_side_by_side(source, target)}"


def _side_by_side(source: str, target: str) -> str:
    return f"{short(source, WIDTH):{WIDTH}} │ {short(target, WIDTH)}"


def short(text: str, width: int) -> str:
    """Return `text` for one line of a terminal: at most `width` printable characters."""
    shown = "".join(c if c.isprintable() else "·" for c in text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
