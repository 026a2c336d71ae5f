"""Step recommend_quotas: an audited day and the days before it → proposed quota values."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from spark_jobs.apply.applied_changes import applied_rows
from spark_jobs.errors import BadInputError
from spark_jobs.judge.log_span import brokers_of, span_of
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.closed_loop_forecast import closed_loop_forecast
from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.recommend.rolling_origin import EarlierDay
from spark_jobs.recommend.weigh.change_results import NOT_AS_PREDICTED, change_results
from spark_jobs.recommend.weigh.forecast import ClosedLoop
from spark_jobs.recommend.weigh.observation import BrokerLoad, Demand, Observation, RateShape
from spark_jobs.recommend.weigh.outlook import seen_day
from spark_jobs.recommend.weigh.traffic import QuotaSensor, SensorId
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import day_number
from spark_jobs.warehouse.read import open_table, read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import write_whole
from spark_jobs.warehouse.tables import CHANGE_RESULTS, DEMAND
from spark_jobs.warehouse.write import new_output, write_table

# Columns of DEMAND that a broker's load has as they are called, and those of its rates.
_FIGURES = (
    "broker_id", "requests", "seconds", "unknown_amounts", "throttled_requests",
    "throttle_time_ms", "logged_throttle_time_ms", "muted_ms", "largest_amount",
)  # fmt: skip
_RATES = {
    "rate_p50": "p50",
    "rate_p95": "p95",
    "rate_p99": "p99",
    "rate_max": "largest",
    "near_bound_share": "near_bound_share",
}


def recommend_quotas(scope: RunScope, settings: RecommendSettings | None = None) -> str:
    """Write ``demand``, ``change_results`` and ``recommendations`` of a day; return a summary."""
    settings = settings or RecommendSettings()
    decisions, brokers = open_table(scope, "decisions"), read_table(scope, "brokers")
    today = observed(decisions, read_table(scope, "rates"), brokers)
    demand = demand_table(today)
    write_table(demand, "demand", scope)
    results = _results(scope, demand, settings)
    write_table(results, "change_results", scope)
    rows = recommend(
        today,
        decisions,
        read_table(scope, "quota_changes"),
        brokers,
        read_table(scope, "findings"),
        settings,
        _earlier(scope, settings),
        day_number(scope.day),
        _closed_loop(scope, settings.closed_loop_requests_max),
    )
    write_table(rows, "recommendations", scope)
    _echo(settings, scope)
    status = rows["status"].to_pylist()
    withheld = f", {status.count('withheld')} withheld" if "withheld" in status else ""
    found = results["result"].to_pylist()
    failed = found.count(NOT_AS_PREDICTED)
    after = f"; {failed} of {len(found)} applied changes did not as predicted" if failed else ""
    return (
        f"recommendations: {status.count('proposed')} proposed{withheld}, {status.count('keep')} "
        f"keep, {status.count('not_enough_data')} without enough data{after}"
    )


def _results(scope: RunScope, demand: pa.Table, settings: RecommendSettings) -> pa.Table:
    """Return the results of the changes that were applied before the day's log begins."""
    applied = applied_rows(scope.warehouse, scope.cluster)
    if not applied:
        return CHANGE_RESULTS.empty_table()
    span_ms = span_of(brokers_of(scope))
    rows = change_results(applied, demand.to_pylist(), span_ms[0] if span_ms else 0, settings)
    return pa.Table.from_pylist(rows, schema=CHANGE_RESULTS)


def _echo(settings: RecommendSettings, scope: RunScope) -> None:
    """Write the settings that were used beside the recommendations' files."""
    text = json.dumps(settings.model_dump(), indent=2, ensure_ascii=False)
    with new_output("reports", scope) as folder:
        write_whole(folder / "recommend-settings.json", f"{text}\n")


def read_settings(path: Path | None) -> RecommendSettings:
    """Return the settings of a TOML file, whose keys are those of RecommendSettings in any order.

    What it does not say is as the environment or the default has it. Raises BadInputError naming
    the key, what was found and what it takes.
    """
    if path is None:
        return RecommendSettings()
    try:
        return RecommendSettings(**tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}. Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: this is no TOML: {error}. Correct that line.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        known = ", ".join(RecommendSettings.model_fields)
        # The value of a key of another file may be a secret.
        is_known = first["loc"][0] in RecommendSettings.model_fields
        found = f" = {first['input']!r}" if is_known else ""
        raise BadInputError(
            f"{path}: {key}{found}: {first['msg']}. The keys are {known}."
        ) from error


def _earlier(scope: RunScope, settings: RecommendSettings) -> list[EarlierDay]:
    """Return the days before that were looked at, oldest first."""
    found = []
    for day in days_of(scope.warehouse, scope.cluster, "demand"):
        if 0 < (scope.day - day).days < settings.history_days:
            other = scope.on(day)
            seen = seen_day(day_number(day), observations_of(read_table(other, "demand")))
            decisions = open_table(other, "decisions")
            found.append((other, EarlierDay(seen, decisions)))
    # All of them together may cost as much as the day itself.
    most = settings.closed_loop_requests_max // max(len(found), 1)
    return [replace(day, closed_loop=_closed_loop(other, most)) for other, day in found]


def _closed_loop(scope: RunScope, requests_max: int) -> ClosedLoop:
    """Return the replay of one day's clients."""
    return partial(closed_loop_forecast, scope, requests_max=requests_max)


def demand_table(observations: Iterable[Observation]) -> pa.Table:
    """Return a day's observations, a row for each sensor and broker, of schema DEMAND."""
    rows = [
        dict(zip(ENTITY_COLUMNS, seen.sensor.key, strict=True))
        | {
            "quota_level": seen.sensor.level,
            "bound": seen.sensor.bound,
            "last_ms": seen.sensor.last_ms,
            "demand": load.demand.rate,
            "demand_basis": load.demand.basis,
            "rate_max_ms": load.peak_at_ms,
        }
        | {column: getattr(load.rates, name) for column, name in _RATES.items()}
        | {name: getattr(load, name) for name in _FIGURES}
        for seen in observations
        for load in seen.brokers
    ]
    return pa.Table.from_pylist(rows, schema=DEMAND)


def observations_of(demand: pa.Table) -> list[Observation]:
    """Return the observations that rows of DEMAND of one day stand for, sorted by key."""
    loads: dict[SensorId, list[tuple[QuotaSensor, BrokerLoad]]] = defaultdict(list)
    for row in demand.to_pylist():
        key = tuple(row[name] for name in ENTITY_COLUMNS)
        load = BrokerLoad(
            demand=Demand(row["demand"], row["demand_basis"]),
            rates=RateShape(**{name: row[column] for column, name in _RATES.items()}),
            peak_at_ms=row["rate_max_ms"],
            **{name: row[name] for name in _FIGURES},
        )
        sensor = QuotaSensor(key, row["requests"], row["last_ms"], row["quota_level"], row["bound"])
        loads[key].append((sensor, load))
    return [_observed([*of]) for _, of in sorted(loads.items())]


def _observed(loads: list[tuple[QuotaSensor, BrokerLoad]]) -> Observation:
    loads.sort(key=lambda one: one[1].broker_id)
    # The sensor is the same on every broker.
    sensor = loads[0][0]
    brokers = tuple(load for _, load in loads)
    return Observation(sensor, max(load.seconds for load in brokers), brokers)
