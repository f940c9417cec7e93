"""Install a package into argostranslate, translate lines with it. Runs beside its own packages.

    python argos_translate.py PACKAGE SCRATCH < LINES

Every sentence splitter of argostranslate downloads a model. One that splits by rules alone is
written here to where it looks for what it has downloaded.
"""

import os
import sys
from pathlib import Path

packed, scratch = map(Path, sys.argv[1:])
for name in ("DATA", "CACHE", "CONFIG"):
    os.environ[f"XDG_{name}_HOME"] = str(scratch / name)
os.environ["ARGOS_CHUNK_TYPE"] = "SPACY"

import spacy  # noqa: E402

downloaded = scratch / "CACHE" / "argos-translate" / "spacy"
downloaded.mkdir(parents=True)
spacy.blank("xx").to_disk(downloaded)
(downloaded / "senter").mkdir()
(downloaded / "senter" / "model").touch()

from argostranslate import package, translate  # noqa: E402

package.install_from_path(packed)
for line in sys.stdin:
    print(translate.translate(line.rstrip("\n"), "en", "de"))
