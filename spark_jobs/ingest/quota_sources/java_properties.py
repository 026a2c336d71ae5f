"""Java's properties files. Source: the format described at ``java.util.Properties.load``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.errors import BadInputError

_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:[^\\:=\s]|\\.)*")
_SEPARATOR = re.compile(r"[ \t\f]*[:=]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


@dataclass(frozen=True, slots=True)
class Property:
    """A property's value and the number of the line it begins at."""

    value: str
    line: int


def read_properties(text: str, source_file: str) -> dict[str, Property]:
    r"""Return the properties of ``text`` by key; of a key given twice the last, as in Java.

    Raises BadInputError naming the line of a malformed Unicode escape.

    >>> read_properties("a = 1\nb: x \\\n  y", "f")["b"]
    Property(value='x y', line=2)
    """
    properties = {}
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        where = f"{source_file}, line {number}"
        value = _unescaped(line[separator.end() :], where)
        properties[_unescaped(key[0], where)] = Property(value, number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each property's first line number and its lines, joined where they go on."""
    begun: str | None = None
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if begun is None:
            if not line or line[0] in "#!":
                continue
            begun, first = "", number
        begun += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield first, begun
            begun = None
    if begun is not None:
        yield first, begun


def _unescaped(text: str, where: str) -> str:
    def replaced(escape: re.Match[str]) -> str:
        code = escape[1]
        if code == "u":
            found = text[escape.start() : escape.start() + 6]
            raise BadInputError(
                f"{where}: found the escape {found!r}, expected "
                "\\u and four hexadecimal digits. Correct the file."
            )
        return chr(int(code[1:], 16)) if code[0] == "u" else _CONTROL.get(code, code)

    return _ESCAPE.sub(replaced, text)
