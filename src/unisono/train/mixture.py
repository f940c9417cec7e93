"""What an epoch is mixed of, as the run tells it at its start."""

from unisono.batching.sources import shares
from unisono.batching.stream import Stream
from unisono.corpus.manifest import Manifest
from unisono.records.events import MixedSource


def mixture(manifest: Manifest, stream: Stream) -> list[MixedSource]:
    """Return the sources of the training set and their part in an epoch; one alone is none."""
    blocks, sources = manifest.splits["train"].blocks, stream.sources()
    names = [entry.source.name for entry in manifest.inputs if entry.split == "train"]
    names = names if len(names) == len(blocks) else [block.name for block in blocks]
    mixed = [
        MixedSource(
            name=name, tag=block.tag, pairs=block.pairs, times=source.weight, share=share
        )
        for name, block, source, share in zip(
            names, blocks, sources, shares(sources), strict=True
        )
    ]
    return mixed if len(mixed) > 1 else []
