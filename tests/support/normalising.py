"""Normalisation of one line, as a reference for that of many at once."""

from unisono.text.normalise import _plain


def normalise(line):
    return " ".join(_plain(line).split())
