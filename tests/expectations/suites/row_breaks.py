"""What it takes to say which rows break a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.builders.tables_builder import NOON_MS

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Break:
    """Rows that break a rule (``named``: those it must name) and sound ones it needs ``beside``."""

    named: tuple[Row, ...]
    beside: tuple[Row, ...] = ()


def rows(*named: Row, beside: tuple[Row, ...] = ()) -> Break:
    return Break(named, beside)


def each(column: str, *values: Any, **others: Any) -> Break:
    return Break(tuple({column: value} | others for value in values))


def twice(**shared: Any) -> Break:
    return Break((shared, shared))


NAN = float("nan")
NO_NUMBER_FROM_0 = (-1.0, NAN, float("inf"))
OTHER_DAY_MS = (NOON_MS - 86_400_000, NOON_MS + 86_400_000)
BLANK = ("", " \t")
