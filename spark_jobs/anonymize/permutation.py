"""Keyed permutations of names: of sequences of digits, which alphabets make of characters.

A permutation never gives two sequences the same image, so nothing has to be remembered to keep
names apart: not between lines, files, processes or runs. Where there are few sequences they are
shuffled by "swap or not" (Hoang, Morris, Rogaway 2012), which mixes the smallest sets well;
where there are many, by a Feistel network of ten rounds. Both draw on HMAC-SHA-256.

A character becomes one of as many bytes in UTF-8. Letters, digits and ``._-`` of ASCII, and nearly
all characters beyond, are replaced. The rest of ASCII, spaces and controls stay at their place:
they are what parts of a name, and of a line, are told by (``CN=…,O=…``).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import string
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

# Beyond ASCII: spaces, ends of lines, directions of writing, what has no width, and surrogates.
_KEPT_BEYOND_ASCII = (
    range(0x80, 0xA1), range(0xAD, 0xAE), range(0x600, 0x606), range(0x61C, 0x61D),
    range(0x6DD, 0x6DE), range(0x70F, 0x710), range(0x1680, 0x1681), range(0x180E, 0x180F),
    range(0x2000, 0x2010), range(0x2028, 0x2030), range(0x205F, 0x2070), range(0x3000, 0x3001),
    range(0xD800, 0xE000), range(0xFEFF, 0xFF00), range(0xFFF0, 0x10000),
)  # fmt: skip


class Alphabet:
    """Characters of one length in UTF-8 that stand for each other; ``mark`` names them."""

    def __init__(self, mark: str, codes: Iterable[range]) -> None:
        """``codes`` are the characters' code points, in order."""
        self.mark, self._codes = mark, tuple(codes)
        self._starts = [each.start for each in self._codes]
        self._first_indexes = [0, *accumulate(map(len, self._codes))]
        self.size = self._first_indexes[-1]

    def index(self, character: str) -> int | None:
        """Return the index of ``character``, from 0; None where it is none of these."""
        code = ord(character)
        found = bisect_right(self._starts, code) - 1
        if found < 0 or code not in self._codes[found]:
            return None
        return self._first_indexes[found] + code - self._starts[found]

    def character(self, index: int) -> str:
        """Return the character at ``index``."""
        found = bisect_right(self._first_indexes, index) - 1
        return chr(self._starts[found] + index - self._first_indexes[found])


def _ascii(mark: str, characters: str) -> Alphabet:
    return Alphabet(mark, (range(ord(c), ord(c) + 1) for c in sorted(characters)))


def _beyond_ascii(mark: str, codes: range) -> Alphabet:
    kept = [each for each in _KEPT_BEYOND_ASCII if each.start in codes]
    edges = [range(codes.start, codes.start), *kept, range(codes.stop, codes.stop)]
    between = (range(one.stop, other.start) for one, other in pairwise(edges))
    return Alphabet(mark, (each for each in between if each))


_LETTERS = string.ascii_letters + string.digits
NAME_LETTERS = _ascii("a", _LETTERS + "._-")
"""All that a topic's name may hold."""
ADDRESS_LETTERS = _ascii("h", _LETTERS + "._")
"""Without the dash, at which a connection is parted into its two ends."""
_OF_TWO_BYTES = _beyond_ascii("b", range(0x80, 0x800))
_OF_THREE_BYTES = _beyond_ascii("c", range(0x800, 0x10000))
_OF_FOUR_BYTES = _beyond_ascii("d", range(0x10000, 0x110000))


def alphabet_of(character: str, letters: Alphabet) -> Alphabet | None:
    """Return the alphabet that replaces ``character``, in ASCII ``letters``; None: it stays."""
    code = ord(character)
    if code < 0x80:
        found = letters
    elif code < 0x800:
        found = _OF_TWO_BYTES
    else:
        found = _OF_THREE_BYTES if code < 0x10000 else _OF_FOUR_BYTES
    return None if found.index(character) is None else found


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
