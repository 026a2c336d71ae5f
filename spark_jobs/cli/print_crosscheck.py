"""The command ``crosscheck``: what brokers measured beside what their logs lead to."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from spark_jobs.cli.print_news import audited_day
from spark_jobs.errors import BadInputError
from spark_jobs.judge.crosscheck_metrics import Crosscheck, crosscheck_metrics
from spark_jobs.judge.metrics.comparison import Comparison
from spark_jobs.judge.metrics.unknown import REASONS
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.numbers import count, time_of_day
from spark_jobs.wording.visible_text import visible


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
        plural = "" if len(found.findings) == 1 else "s"
        return f"{count(len(found.findings))} finding{plural}: metrics and log disagree."
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
