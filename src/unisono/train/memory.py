"""How a process keeps the memory that it frees."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # their numbers in malloc.h
NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Use freed memory again instead of returning it to the system after every step.

    Large tensors otherwise get new pages at every use, which the system fills with zeros
    first: 50,000 of them a step of the small preset, which takes 4 % of its time.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # not in every C library
        libc.mallopt(MMAP_MAX, 0)
        libc.mallopt(TRIM_THRESHOLD, NEVER)
