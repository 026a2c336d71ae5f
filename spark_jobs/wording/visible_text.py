"""Text of strangers as people may be shown it: nothing invisible, nothing endless."""

from __future__ import annotations

NAME_LENGTH_MAX = 120


def visible(text: str) -> str:
    r"""Return ``text`` with control, invisible and direction-changing characters spelled out.

    Client ids come from clients: one may hold characters that make it look like another.

    >>> visible("safe name"), visible("a\u202eb\n")
    ('safe name', 'a\\u202eb\\n')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return ``text``, cut in the middle where it is longer than ``length_max`` characters."""
    if len(text) <= length_max:
        return text
    head = length_max * 2 // 3
    return f"{text[:head]}…{text[-(length_max - head - 1) :]}"
