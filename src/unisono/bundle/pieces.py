"""The pieces of a model alone, for text that it is to read. No torch here."""

from pathlib import Path

from unisono.bundle.format import DESCRIPTION, Description, bundle_at, read_json, verify_bundle
from unisono.bundle.huggingface_pieces import is_huggingface, read_pieces
from unisono.text.inherited import InheritedPieces
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation


def pieces_of(path: Path) -> InheritedPieces:
    """Return the pieces of the run or bundle at `path`, after checking all its files.

    A Hugging Face directory has some, too.
    """
    if is_huggingface(path):
        theirs = read_pieces(path)
        return InheritedPieces(str(path), theirs.tokenizers, theirs.normalisation)
    bundle = bundle_at(path)
    verify_bundle(bundle)
    about = read_json(bundle / DESCRIPTION, Description)
    tokenizers = load_tokenizers(about.tokenizer, bundle, joint=about.joint, tags=about.tags)
    normalisation = Normalisation(about.plain_quotes, about.lowercase)
    return InheritedPieces(str(path), tokenizers, normalisation)
