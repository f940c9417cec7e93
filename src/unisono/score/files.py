"""Read the lines of texts to score, plain or compressed."""

from collections.abc import Sequence
from pathlib import Path

from unisono.decompress import COMPRESSIONS, DecompressionError, decompressed_blocks
from unisono.errors import DataError
from unisono.score.bleu import Bleu, score_bleu
from unisono.small_files import open_regular

# TER compares the words of a line with each other: a megabyte would take it hours.
LONGEST_SCORED_BYTES = 100_000


def score_files(translations: Path, references: Path) -> Bleu:
    """Return the BLEU of a file of translations against a file of references, line by line."""
    found, expected = aligned_lines([translations, references])
    return score_bleu(found, expected)


def aligned_lines(paths: Sequence[Path]) -> list[list[str]]:
    """Return the lines of each file; all have as many, and at least one."""
    texts = [lines_of(path) for path in paths]
    last, expected = paths[-1], texts[-1]
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(expected):
            raise DataError(
                f"{path} has {len(lines)} lines; {last} has {len(expected)}",
                where=str(path),
                fix="both files need one line per sentence, in the same order; "
                "keep empty lines for empty translations",
            )
    if not expected:
        raise DataError(f"{last} is empty", where=str(last), fix="name another file")
    return texts


def aligned_sentences(paths: Sequence[Path]) -> list[list[str]]:
    """Return the lines of each file, as `aligned_lines`, if each may be a sentence."""
    texts = aligned_lines(paths)
    for path, lines in zip(paths, texts, strict=True):
        for number, line in enumerate(lines, start=1):
            if 4 * len(line) > LONGEST_SCORED_BYTES < len(line.encode()):
                raise DataError(
                    f"a line has over {LONGEST_SCORED_BYTES:,} bytes",
                    where=f"{path}, line {number}",
                    fix="score one sentence a line",
                )
    return texts


def lines_of(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file, compressed if its name ends in .gz or the like."""
    try:
        content = _content(path)
        text = content.decode("utf-8")
    except DecompressionError as error:
        raise DataError(
            f"{path.name} cannot be decompressed: {error}",
            where=str(path),
            fix="fetch the file again, or name it without the ending if it is plain text",
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}",
            where=str(path),
            fix="check the name and the permissions",
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"byte 0x{error.object[error.start]:02x} is not UTF-8",
            where=f"{path}, line {line}",
            fix="convert the file, for example: iconv -f latin1 -t utf-8",
        ) from error
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        if path.suffix not in COMPRESSIONS:
            return file.read()
        return b"".join(decompressed_blocks(file, path.suffix))
