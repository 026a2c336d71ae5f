"""``docs/architecture.svg``: how an archive becomes a report, drawn from the pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from spark_jobs.warehouse.pipeline import STEPS as PIPELINE


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its command, the rooms of its rules, and what it writes into the warehouse."""

    command: str
    rooms: tuple[str, ...]
    tables: tuple[str, ...]
    is_checked: bool


SOURCES = Path(__file__).parents[2] / "spark_jobs"


def _rooms(step: str) -> tuple[str, ...]:
    """Return the sub-folders of a step: ``resolve`` has ``timeline``."""
    return tuple(sorted(found.parent.name for found in (SOURCES / step).glob("*/__init__.py")))


STEPS = tuple(
    Step(step.command[0], _rooms(step.command[0]), step.writes, bool(after and after.stage))
    for step, after in itertools.pairwise([*PIPELINE.values(), None])
    if step and not step.stage
)
TITLE = "From an archive to a report"
DESC = (
    "An archive of log files is read by the step ingest. Six steps follow each other: "
    + ", ".join(step.command for step in STEPS)
    + ". In Airflow each is a process of its own; quota-audit run does all of them. Each follows "
    "the rules of pure rooms that know neither Spark nor files, and writes tables into the "
    "warehouse, which the steps to its right read. Great Expectations checks the tables after "
    + ", ".join(step.command for step in STEPS if step.is_checked)
    + "; a critical failure stops what follows."
)
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b1f24 }
  .small { font-size: 12px; fill: #57606a }
  .mono { font: 12px ui-monospace, monospace }
  .name { font-weight: 600 }
  .box { fill: #fff; stroke: #57606a }
  .step { fill: #dbeafe; stroke: #1d4ed8 }
  .lane { fill: #f6f8fa; stroke: #d0d7de }
  .flow { stroke: #57606a; fill: none; marker-end: url(#tip) }
  .tip { fill: #57606a }
  .gate { stroke: #b45309; stroke-width: 3 }
  .gated { font-size: 12px; fill: #92400e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .small { fill: #9da7b3 }
    .box { fill: #0d1117; stroke: #9da7b3 }
    .step { fill: #172554; stroke: #93c5fd }
    .lane { fill: #161b22; stroke: #3d444d }
    .flow { stroke: #9da7b3 }
    .tip { fill: #9da7b3 }
    .gate { stroke: #fbbf24 }
    .gated { fill: #fbbf24 }
    .paper { fill: #0d1117 }
  }
  .paper { fill: #fff }
"""
_LEFT, _WIDE, _GAP = 132, 128, 16
_ROW = 18
_RIGHT = _LEFT + len(STEPS) * (_WIDE + _GAP)
# Tops of the lanes: who starts a step, the steps, their rooms, the warehouse.
_START, _STEP, _ROOM = 12, 92, 184
_ROOMS_HIGH = 24 + _ROW * max(len(step.rooms) for step in STEPS)
_TABLE = _ROOM + _ROOMS_HIGH + 34
_TABLES_HIGH = 24 + _ROW * max(len(step.tables) for step in STEPS)
_HIGH = _TABLE + _TABLES_HIGH + 78


def architecture_picture() -> str:
    """Return the picture as SVG; colours follow the reader's light or dark scheme."""
    parts = [*_frame(), *_lanes(), *_archive()]
    for number, step in enumerate(STEPS):
        parts += _step(step, _LEFT + number * (_WIDE + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _frame() -> Iterator[str]:
    # The media query comes after what it changes, or it would change nothing.
    light, dark = _STYLE.split("  @media", 1)
    dark, paper = dark.rsplit("  .paper", 1)
    style = f"{light}  .paper{paper}  @media{dark}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_RIGHT} {_HIGH}" role="img" '
        f'aria-labelledby="title desc">'
    )
    yield f'<title id="title">{escape(TITLE)}</title>'
    yield f'<desc id="desc">{escape(DESC)}</desc>'
    yield f"<style>{style}</style>"
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
    )
    yield f'<rect class="paper" width="{_RIGHT}" height="{_HIGH}"/>'


def _lanes() -> Iterator[str]:
    wide = _RIGHT - _LEFT - _GAP + 16
    lanes = (
        (_START, 48, ("started by",)),
        (_STEP, 48, ("step",)),
        (_ROOM, _ROOMS_HIGH, ("rules", "pure rooms")),
        (_TABLE, _TABLES_HIGH, ("warehouse", "Parquet, by", "cluster and day")),
    )
    for top, high, (name, *more) in lanes:
        yield f'<text class="name" x="12" y="{top + 20}">{name}</text>'
        for row, text in enumerate(more, start=1):
            yield f'<text class="small" x="12" y="{top + 20 + row * 17}">{text}</text>'
        if name != "step":
            yield _rect("lane", _LEFT - 8, top, wide, high)
    yield (
        f'<text x="{_LEFT + 8}" y="{_START + 29}">Airflow DAG <tspan class="mono">quota_audit_daily'
        '</tspan>, each step a process; or <tspan class="mono">quota-audit run</tspan>, all in one'
        "</text>"
    )
    yield (
        f'<text x="{_LEFT}" y="{_HIGH - 42}" class="small">Steps read what lies to their left. '
        "Pages, <tspan class='mono'>explain</tspan>, <tspan class='mono'>whatif</tspan>, "
        "<tspan class='mono'>render</tspan> and <tspan class='mono'>apply</tspan> read the "
        "warehouse.</text>"
    )
    yield f'<path class="gate" d="M{_LEFT} {_HIGH - 22}h22"/>'
    yield (
        f'<text x="{_LEFT + 32}" y="{_HIGH - 18}" class="gated">Great Expectations checks the '
        "tables; a critical failure stops what follows</text>"
    )


def _archive() -> Iterator[str]:
    yield f'<text class="name" x="12" y="{_STEP + 66}">archive</text>'
    yield f'<text class="small" x="12" y="{_STEP + 83}">log files</text>'
    yield f'<path class="flow" d="M76 {_STEP + 62}h28v-38h20"/>'


def _step(step: Step, left: int) -> Iterator[str]:
    middle = left + _WIDE // 2
    yield _rect("step", left, _STEP, _WIDE, 48)
    yield (
        f'<text class="name" x="{middle}" y="{_STEP + 29}" text-anchor="middle">'
        f"{step.command}</text>"
    )
    yield f'<path class="flow" d="M{middle} {_START + 48}V{_STEP - 2}"/>'
    yield f'<path class="flow" d="M{middle} {_ROOM}V{_STEP + 50}"/>'
    yield from _listed(step.rooms, middle, _ROOM + 24)
    # Past the rooms, on the step's right edge.
    edge = left + _WIDE - 8
    yield f'<path class="flow" d="M{edge} {_STEP + 48}V{_TABLE - 2}"/>'
    yield from _listed(step.tables, middle, _TABLE + 28)
    if step.is_checked:
        beyond = left + _WIDE + _GAP // 2
        tables = f"M{beyond} {_TABLE + 6}v{_TABLES_HIGH - 12}"
        yield f'<path class="gate" d="M{beyond} {_STEP - 8}v64{tables}"/>'


def _listed(names: tuple[str, ...], middle: int, top: int) -> Iterator[str]:
    for row, name in enumerate(names):
        yield (
            f'<text class="mono" x="{middle}" y="{top + row * _ROW}" text-anchor="middle">'
            f"{name}</text>"
        )


def _rect(kind: str, left: int, top: int, wide: int, high: int) -> str:
    return f'<rect class="{kind}" x="{left}" y="{top}" width="{wide}" height="{high}" rx="6"/>'
