"""Translates pieces with a checkpoint of `transformers_train.py`, longest sentences first.

python transformers_translate.py CHECKPOINT PIECES SOURCE RESULT BEAM SENTENCES_AT_ONCE
"""

import sys
from pathlib import Path

import torch
from transformers import MarianMTModel
from transformers_train import END, PAD, UNKNOWN, padded


def main() -> None:
    """Translate a file."""
    checkpoint, names, source, result = sys.argv[1:5]
    beam, at_once = map(int, sys.argv[5:])
    pieces = Path(names).read_text("utf-8").split("\n")[:-1]
    ids = {piece: i for i, piece in enumerate(pieces)}
    lines = [line.split() for line in Path(source).read_text("utf-8").split("\n")[:-1]]
    model = MarianMTModel.from_pretrained(checkpoint).eval()
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    out = [""] * len(lines)
    for first in range(0, len(order), at_once):
        chosen = order[first : first + at_once]
        rows = padded([[ids.get(p, UNKNOWN) for p in lines[i]] + [END] for i in chosen], PAD)
        longest = 2 * rows.shape[1] + 20
        with torch.inference_mode():
            found = model.generate(
                rows,
                attention_mask=rows.ne(PAD).long(),
                num_beams=beam,
                max_length=longest,
            )
        for i, row in zip(chosen, found.tolist(), strict=True):
            out[i] = " ".join(pieces[j] for j in row if j not in (PAD, END))
    Path(result).write_text("".join(f"{line}\n" for line in out), "utf-8")


if __name__ == "__main__":
    main()
