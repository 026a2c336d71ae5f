"""What score and crosscheck print: how far a replay and what brokers logged or measured agree."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.cli.scopes import audited_day
from spark_jobs.errors import BadInputError
from spark_jobs.judge.crosscheck_metrics import Crosscheck, crosscheck_metrics
from spark_jobs.judge.metrics.comparison import Comparison
from spark_jobs.judge.metrics.unknown import REASONS
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.wording.names import counted, entity_name
from spark_jobs.wording.numbers import count, time_of_day
from spark_jobs.wording.visible_text import visible

if TYPE_CHECKING:
    from spark_jobs.score.score_capture import ScoreRequest

# A client's name on one line with its figures, also where no terminal says its width.
WIDTH_MIN = 120


def print_score(request: ScoreRequest, *, with_controls: bool, as_json: bool) -> None:
    """Print the figures of a capture, for people or as one JSON object.

    ``with_controls`` adds those of two audits that must be worse. Raises BadInputError where there
    is nothing to score.
    """
    from spark_jobs.quota.rate_profile import RateProfile
    from spark_jobs.score.score_capture import score_capture, score_controls

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
    shown = list(next(iter(controls.values())))
    for name in shown:
        table.add_column(name, justify="right")
    for name, row in {"the capture": figures, **controls}.items():
        table.add_row(name, *(_shown(row[figure]) for figure in shown))
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


def print_crosscheck(
    exports: Sequence[Path],
    warehouse: Path,
    cluster: str,
    day: dt.date | None,
    instances: Mapping[str, int],
    *,
    as_json: bool,
) -> Crosscheck:
    """Print the comparison of exports with an audited day (None: the last one), and return it.

    Raises BadInputError where the day was not audited, or an export cannot be understood.
    """
    scope = audited_day(warehouse, cluster, day).pinned()
    found = crosscheck_metrics(scope, exports, CrosscheckSettings(), instances)
    if as_json:
        typer.echo(json.dumps(_record(found, scope.day)))
    else:
        typer.echo("\n".join(_lines(found, scope.day)))
    return found


def instance_brokers(options: Iterable[str]) -> dict[str, int]:
    """Return broker id by instance from options like ``1=kafka-a:7071``.

    Raises BadInputError naming the option that does not read so.
    """
    brokers: dict[str, int] = {}
    for option in options:
        broker, separator, instance = option.partition("=")
        if not separator or not instance or not broker.isdigit():
            raise BadInputError(
                f"--broker {option!r} is not of the form <broker id>=<instance>, "
                "for example 1=kafka-a:7071."
            )
        brokers[instance] = int(broker)
    return brokers


def _lines(found: Crosscheck, day: dt.date) -> Iterator[str]:
    share = 1 - found.disagreeing / found.compared if found.compared else math.nan
    yield (
        f"{count(found.compared)} samples of {day} compared, "
        f"{count(found.compared - found.disagreeing)} agree"
        + (f" ({share:.2%})" if found.compared else "")
    )
    for one in found.comparisons:
        if one.compared:
            yield f"  {_sentence(one)}"
    if found.left_out:
        yield "Left out:"
    for reason, samples in sorted(found.left_out.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count(samples)} samples: {REASONS[reason]}"
    if found.other_series:
        yield f"  {count(found.other_series)} series of other metrics"
    for row in found.findings:
        yield ""
        span = f"{time_of_day(row['from_ms'], day)} to {time_of_day(row['until_ms'], day)}"
        yield f"{row['severity']} {row['finding_id']}, {span}"
        yield f"  {visible(row['explanation'])}"
    yield ""
    yield _verdict(found)


def _verdict(found: Crosscheck) -> str:
    if found.findings:
        return f"{counted(len(found.findings), 'finding')}: metrics and log disagree."
    if found.compared:
        return "No finding: metrics and log agree."
    return "Nothing could be compared."


def _sentence(one: Comparison) -> str:
    who = visible(entity_name(one.key.quota_user, one.key.quota_client_id))
    return (
        f"broker {one.key.broker_id}, {one.key.quota_type}, {who}: {one.metric} agrees in "
        f"{count(one.compared - one.disagreeing)} of {count(one.compared)}"
    )


def _record(found: Crosscheck, day: dt.date) -> dict[str, Any]:
    return {
        "day": day.isoformat(),
        "compared": found.compared,
        "agreeing": found.compared - found.disagreeing,
        "left_out": dict(found.left_out),
        "other_series": found.other_series,
        "sensors": [
            {
                **one.key._asdict(),
                "metric": one.metric,
                "compared": one.compared,
                "agreeing": one.compared - one.disagreeing,
                "left_out": dict(one.left_out),
            }
            for one in found.comparisons
        ],
        "findings": [{**row, "evidence": json.loads(row["evidence"])} for row in found.findings],
    }
