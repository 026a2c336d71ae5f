"""Keyed permutations of sequences of digits, each digit of a base of its own.

A permutation never gives two sequences the same image, so nothing has to be remembered to keep
names apart: not between lines, files, processes or runs. Where there are few sequences they are
shuffled by "swap or not" (Hoang, Morris, Rogaway 2012), which mixes the smallest sets well;
where there are many, by a Feistel network of ten rounds. Both draw on HMAC-SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import sys
from array import array
from collections.abc import Sequence

FEW_MAX = 1 << 24
"""Up to so many sequences are shuffled as numbers: all of three letters, 65 to choose from."""
_SWAPS = 160
_FEISTEL_ROUNDS = 10
_WORD_BYTES = 4


def permuted(key: bytes, domain: bytes, digits: Sequence[int], bases: Sequence[int]) -> list[int]:
    """Return the image of ``digits`` under the permutation that ``key`` and ``domain`` choose.

    ``digits[i]`` is in ``range(bases[i])``, and so is the image's. Permutations of different
    domains, or keys, have nothing to do with each other.

    >>> images = {tuple(permuted(b"k", b"", (a, b), (3, 4))) for a in range(3) for b in range(4)}
    >>> len(images), max(a for a, _ in images), max(b for _, b in images)
    (12, 2, 3)
    """
    seed = hmac.digest(key, b"permutation\0" + domain, "sha256")
    if _product_up_to(bases, FEW_MAX) <= FEW_MAX:
        return _shuffled(seed, digits, bases)
    return _feistel(seed, list(digits), bases)


def _product_up_to(bases: Sequence[int], limit: int) -> int:
    """Return the product, or some number above ``limit`` where it is above."""
    product = 1
    for base in bases:
        product *= base
        if product > limit:
            break
    return product


def _shuffled(seed: bytes, digits: Sequence[int], bases: Sequence[int]) -> list[int]:
    count, value = math.prod(bases), 0
    for digit, base in zip(digits, bases, strict=True):
        value = value * base + digit
    for turn in range(_SWAPS):
        value = _swapped_or_not(seed, turn, value, count)
    image = []
    for base in reversed(bases):
        value, digit = divmod(value, base)
        image.append(digit)
    return image[::-1]


def _swapped_or_not(seed: bytes, turn: int, value: int, count: int) -> int:
    """Return ``value`` or its partner of this turn: both decide alike, so they swap or stay."""
    number = turn.to_bytes(2, "big")
    shift = int.from_bytes(hmac.digest(seed, b"shift" + number, "sha256"), "big")
    partner = (shift - value) % count
    greater = max(value, partner).to_bytes(4, "big")
    swaps = hmac.digest(seed, b"swap" + number + greater, "sha256")[0] & 1
    return partner if swaps else value


def _feistel(seed: bytes, digits: list[int], bases: Sequence[int]) -> list[int]:
    """Add to one half of the digits what the other half chooses, in turns: each can be undone."""
    middle = len(digits) // 2
    halves = (slice(None, middle), slice(middle, None))
    for turn in range(_FEISTEL_ROUNDS):
        moved, chooser = halves[turn % 2], halves[1 - turn % 2]
        words = _words(seed, turn, digits[chooser], len(bases[moved]))
        digits[moved] = [
            (digit + word) % base
            for digit, word, base in zip(digits[moved], words, bases[moved], strict=True)
        ]
    return digits


def _words(seed: bytes, turn: int, chooser: Sequence[int], count: int) -> array[int]:
    said = array("I", chooser)
    if sys.byteorder == "big":
        said.byteswap()
    drawn = hmac.digest(seed, b"round" + turn.to_bytes(2, "big") + said.tobytes(), "sha256")
    words = array("I", hashlib.shake_256(drawn).digest(_WORD_BYTES * count))
    if sys.byteorder == "big":
        words.byteswap()
    return words
