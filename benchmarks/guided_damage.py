"""Damage one file under the guidance of coverage: atheris keeps what reaches new code of ours.

    .venv/bin/python -m pip install atheris    # not in our lock files; a compiler may be needed
    .venv/bin/python benchmarks/guided_damage.py run config.toml --seconds 120

The sample is one of those of damaged_files.py; the file is named within it. Cases may have any
content; the first command of the sample reads them. A traceback or a hang ends the campaign
with an error and leaves its input as `crash-...` in the directory given by `--keep`.
"""

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

with atheris.instrument_imports(include=["unisono"]):
    from fuzz.readers import Reader, run
    from fuzz.samples import READERS


def read(reader: Reader, copy: Path, file: str, content: bytes) -> None:
    """Have the sample read with this content, by its first command; a traceback is an error."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(reader.sample, copy)
    (copy / file).write_bytes(content)
    words = list(reader.commands[0](copy))
    with chdir(copy):
        _, _, crashed = run(words, reader.input_in(copy), at_terminal=reader.at_terminal)
    if crashed:
        raise RuntimeError(f"{words[0]}: {crashed}")


def main() -> None:
    """Run the campaign; atheris ends the process with its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sample", choices=READERS)
    parser.add_argument("file", help="the file of the sample that is damaged")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", type=Path, default=Path("/tmp"), help="for a crash's input")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="guided-"))
    reader = READERS[options.sample](place / "sample")
    content = (reader.sample / options.file).read_bytes()
    (place / "seeds").mkdir()
    (place / "seeds" / "whole").write_bytes(content)
    with atheris.instrument_imports(include=["unisono"]):
        read(reader, place / "copy", options.file, content)  # imports what a command imports
    flags = [
        *(f"-max_total_time={options.seconds}", f"-max_len={2 * len(content) + 64}"),
        *("-timeout=60", "-print_final_stats=1", "-verbosity=0"),
        f"-artifact_prefix={options.keep}{os.sep}",
    ]
    atheris.Setup(
        [sys.argv[0], *flags, str(place / "seeds")],
        lambda data: read(reader, place / "copy", options.file, data),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
