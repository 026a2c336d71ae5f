"""Text of strangers as people may be shown it: nothing invisible, nothing endless."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 120
# What a spreadsheet may begin a cell behind, whatever the file separates cells by; the blanks that
# it passes by; and the signs of a formula, as East Asian keyboards have them too.
_BREAKS = r"\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20\u2212"
_FORMULA = re.compile(rf"(?<![^;{_BREAKS}])(?=[\t\r]|[^\S{_BREAKS}]*[{_SIGNS}])")


def visible(text: str) -> str:
    r"""Return ``text`` with control, invisible and direction-changing characters spelled out.

    Client ids come from clients: one may hold characters that make it look like another.

    >>> visible("safe name"), visible("a\u202eb\n")
    ('safe name', 'a\\u202eb\\n')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def without_formulas(text: str) -> str:
    r"""Return ``text`` for a cell of a CSV: an apostrophe stands before what begins a formula.

    Quoting does not keep a spreadsheet from running a formula that a stranger chose as a name.

    >>> without_formulas("=1+1"), without_formulas("team-a"), without_formulas("a\n@x")
    ("'=1+1", 'team-a', "a\n'@x")
    """
    return _FORMULA.sub("'", text)


def shortened(text: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return ``text``, cut in the middle where it is longer than ``length_max`` characters."""
    if len(text) <= length_max:
        return text
    head = length_max * 2 // 3
    return f"{text[:head]}…{text[-(length_max - head - 1) :]}"
