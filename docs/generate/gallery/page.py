"""A page of the gallery: computed numbers and a picture, and a text with places for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined


@dataclass(frozen=True, slots=True)
class Page:
    """``name`` names the page, its picture, and the template that its ``facts`` go into."""

    name: str
    title: str
    document: str  # whose argument it is, by its public title
    label: str  # the picture in words
    svg: str
    facts: Mapping[str, Any]


def rendered(template: str, **facts: Any) -> str:
    """Return ``templates/<template>.md.jinja`` with ``facts``; one that is missing is an error."""
    text = _environment().get_template(f"{template}.md.jinja").render(**facts)
    return text.rstrip() + "\n"


def number(value: float, digits: int = 4) -> str:
    """Return a number without digits that say nothing.

    >>> number(5.656566), number(12.0), number(-60)
    ('5.6566', '12', '-60')
    """
    shown = f"{value:,.{digits}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace(",", " ")


def seconds(time_ms: float) -> str:
    """Return a time of ms in seconds.

    >>> seconds(12_000), seconds(99_999)
    ('12 s', '99.999 s')
    """
    return f"{number(time_ms / 1000, 3)} s"


def _environment() -> Environment:
    # The pages are Markdown of the project's own numbers: nothing in them is to be escaped.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["seconds"] = seconds
    return environment
