"""Which characters of a name are replaced, and by which: by ones of as many bytes in UTF-8.

Letters, digits and ``._-`` of ASCII, and nearly all characters beyond, are replaced. The rest of
ASCII, spaces and controls stay at their place: they are what parts of a name, and of a line, are
told by (``CN=…,O=…``).
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterable
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
        self._first_places = [0, *accumulate(map(len, self._codes))]
        self.size = self._first_places[-1]

    def place(self, character: str) -> int | None:
        """Return the place of ``character``, from 0; None where it is none of these."""
        code = ord(character)
        found = bisect_right(self._starts, code) - 1
        if found < 0 or code not in self._codes[found]:
            return None
        return self._first_places[found] + code - self._starts[found]

    def character(self, place: int) -> str:
        """Return the character at ``place``."""
        found = bisect_right(self._first_places, place) - 1
        return chr(self._starts[found] + place - self._first_places[found])


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
    """Return what ``character`` is replaced from, in ASCII ``letters``; None: it stays."""
    code = ord(character)
    if code < 0x80:
        found = letters
    elif code < 0x800:
        found = _OF_TWO_BYTES
    else:
        found = _OF_THREE_BYTES if code < 0x10000 else _OF_FOUR_BYTES
    return None if found.place(character) is None else found
