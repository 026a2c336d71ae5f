"""The figures of a score, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.score.score_capture import ScoreRequest, score_capture
from spark_jobs.score.score_controls import SHOWN, score_controls

# A client's name on one line with its figures, also where no terminal says its width.
WIDTH_MIN = 120


def print_score(request: ScoreRequest, *, with_controls: bool, as_json: bool) -> None:
    """Print the figures of a capture, for people or as one JSON object.

    ``with_controls`` adds those of two audits that must be worse. Raises BadInputError where there
    is nothing to score.
    """
    figures = score_capture(request)
    controls = {}
    if with_controls:
        controls = score_controls(request, RateProfile(figures["rate_profiles"][0]))
    if as_json:
        print(json.dumps(figures | ({"controls": controls} if controls else {})))
        return
    console = Console(soft_wrap=True, highlight=False)
    console = Console(width=max(console.width, WIDTH_MIN), soft_wrap=True, highlight=False)
    if controls:
        console.print(_control_table(figures, controls), "")
    sensors = figures.pop("sensors")
    for name, value in figures.items():
        console.print(f"{name:22} {_shown(value)}", markup=False)
    console.print(_sensor_table(sensors))


def _control_table(figures: Mapping[str, Any], controls: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in SHOWN:
        table.add_column(name, justify="right")
    for name, row in {"the capture": figures, **controls}.items():
        table.add_row(name, *(_shown(row[figure]) for figure in SHOWN))
    return table


def _sensor_table(sensors: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("broker", "quota", "decided", "agree", "throttled", "≤ 1 ms", "flagged"):
        table.add_column(title, justify="left" if title == "quota" else "right")
    for sensor in sensors:
        quota = f"{sensor['quota_type']} {sensor['quota_user']}:{sensor['quota_client_id']}"
        shown = ("decisions", "decision_agreement", "throttled", "throttle_within_1ms", "flagged")
        table.add_row(
            str(sensor["broker_id"]), Text(quota), *(_shown(sensor[name]) for name in shown)
        )
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return "-" if value is None else str(value)
