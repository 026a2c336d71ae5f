"""A day's decisions → the ``recommendations`` table, and the files that carry them out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from spark_jobs.apply.changes.quota_alteration import PROPOSED, proposed_alterations
from spark_jobs.apply.render import render
from spark_jobs.errors import AuditFailedError
from spark_jobs.quota.codes import FINDING_KINDS, QuotaType
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.departed import without_departed
from spark_jobs.recommend.merge import with_merges
from spark_jobs.recommend.read_traffic import Parts, bound_sensors, parts_of, traffic_of
from spark_jobs.recommend.rolling_origin import EarlierDay, origins_of, trials_of
from spark_jobs.recommend.split import splits_of, with_splits
from spark_jobs.recommend.weigh.backtest import BrokerRule, broker_rules
from spark_jobs.recommend.weigh.cases import cases_of
from spark_jobs.recommend.weigh.configured_values import ConfiguredValues, end_of_day_ms
from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    ClosedLoop,
    forecast_by_broker,
    replay_waiting,
    throttle_time_of,
)
from spark_jobs.recommend.weigh.observation import Observation, observe
from spark_jobs.recommend.weigh.outlook import SeenDay, over_days, seen_day
from spark_jobs.recommend.weigh.proposal import Case, Rules, bounding_cases
from spark_jobs.recommend.weigh.rows import Basis, row_of, unused_rows
from spark_jobs.recommend.weigh.traffic import QuotaSensor, SensorId
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS
from spark_jobs.warehouse.tables import RECOMMENDATIONS
from spark_jobs.wording.visible_text import without_formulas

CSV_FILE, APPLY_FILE, ROLLBACK_FILE = "recommendations.csv", "apply.sh", "rollback.sh"


def observed(
    decisions: pa.Table | ds.Dataset, rates: pa.Table, brokers: pa.Table
) -> list[Observation]:
    """Return a day's observations of the sensors that a quota bounds, sorted by key.

    ``decisions`` is read in portions; given as a dataset it is never in memory as a whole. Raises
    AuditFailedError where a decision names a broker that ``brokers`` does not have.
    """
    data = _dataset(decisions)
    sensors = bound_sensors(data)
    return _observations(data, sensors, _seconds_of_traffic(rates), broker_rules(brokers))


def recommend(
    today: Sequence[Observation],
    decisions: pa.Table | ds.Dataset,
    quota_changes: pa.Table,
    brokers: pa.Table,
    findings: pa.Table,
    settings: RecommendSettings,
    earlier: Sequence[EarlierDay] = (),
    day: int | None = None,
    closed_loop: ClosedLoop | None = None,
) -> pa.Table:
    """Return the rows of ``recommendations`` of one day, sorted by quota type and entity.

    ``today`` is what the day showed, ``earlier`` what the days before it did, in time order;
    ``day`` is its own number since the epoch, if not that of its last request. ``closed_loop``
    replays the day's clients where they wait; without it arrivals stay as logged.
    """
    data = _dataset(decisions)
    rules = Rules(broker_rules(brokers), _faults(findings), settings)
    if day is None:
        day = max((seen.sensor.last_ms for seen in today), default=0) // DAY_MS
    days = [*(one.seen for one in earlier), seen_day(day, today)]
    changes = quota_changes.to_pylist()
    values = ConfiguredValues(changes, end_of_day_ms(day * DAY_MS))
    cases = cases_of(over_days(days, settings), values, rules)
    of_days = [*(one.decisions for one in earlier), data]
    cases = without_departed(cases, days, of_days, values, rules)
    splits = splits_of(cases, days, of_days, changes, rules)
    cases = with_splits(cases, splits, values, settings)
    logged = _forecasts(data, cases, days[-1], rules.brokers)
    logged |= split_forecasts(data, cases, rules.brokers)
    throttles = {key: throttle_time_of(logged, key) for key in logged}
    replayed = replay_waiting(closed_loop, cases, throttles, days[-1])
    trials = trials_of(
        [case.key for case in cases if case.proposal.status == PROPOSED],
        origins_of([*earlier, EarlierDay(days[-1], data, closed_loop)], changes, rules),
        rules,
    ) | {split.case.key: list(split.trials) for split in splits}
    basis = Basis(
        logged if replayed is None else replayed.forecasts(logged, cases),
        replayed, trials, days[-1], rules,
    )  # fmt: skip
    rows = [row_of(case, basis) for case in cases]
    rows += unused_rows(cases, values, len(days), settings)
    rows = with_merges(rows, cases, days, of_days, values, rules)
    rows.sort(key=lambda r: (r["quota_type"], r["quota_user"] or "", r["quota_client_id"] or ""))
    return pa.Table.from_pylist(rows, schema=RECOMMENDATIONS)


def _dataset(decisions: pa.Table | ds.Dataset) -> ds.Dataset:
    return ds.dataset(decisions) if isinstance(decisions, pa.Table) else decisions


def _observations(
    data: ds.Dataset,
    sensors: list[QuotaSensor],
    seconds: Mapping[SensorId, int],
    rules: Mapping[int, BrokerRule],
) -> list[Observation]:
    by_key = {sensor.key: sensor for sensor in sensors}
    seen = []
    for traffic in traffic_of(data, sensors):
        unknown = sorted(set(np.unique(traffic.amounts.broker_id).tolist()) - set(rules))
        if unknown:
            raise AuditFailedError(
                f"decisions of {traffic.key} name broker {unknown[0]}, but the brokers table has "
                f"{sorted(rules)} only; ingest and replay the day again"
            )
        seen.append(observe(by_key[traffic.key], traffic, seconds.get(traffic.key, 0), rules))
    return seen


def _seconds_of_traffic(rates: pa.Table) -> dict[SensorId, int]:
    """Return the number of seconds each sensor had traffic; for mutations, from first to last.

    Mutations are rare by nature: a topic a minute for an hour is plenty of evidence.
    """
    second = "second_ms"
    grouped = rates.group_by(list(ENTITY_COLUMNS)).aggregate(
        [(second, "count_distinct"), (second, "min"), (second, "max")]
    )
    seconds = {}
    for row in grouped.to_pylist():
        spanned = (row[f"{second}_max"] - row[f"{second}_min"]) // 1000 + 1
        is_mutation = row["quota_type"] == QuotaType.CONTROLLER_MUTATION_RATE
        key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
        seconds[key] = spanned if is_mutation else row[f"{second}_count_distinct"]
    return seconds


def _faults(findings: pa.Table) -> dict[SensorId, set[str]]:
    faults: dict[SensorId, set[str]] = defaultdict(set)
    for row in findings.select([*ENTITY_COLUMNS, "kind", "hypothesis"]).to_pylist():
        if row["kind"] in FINDING_KINDS:
            key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
            faults[key] |= {row["kind"], row["hypothesis"]} - {None}
    return dict(faults)


def _forecasts(
    data: ds.Dataset, cases: Iterable[Case], today: SeenDay, rules: Mapping[int, BrokerRule]
) -> dict[SensorId, tuple[BrokerForecast, ...]]:
    """Return the forecasts of the proposals, by replaying the traffic of the sensors they bound."""
    changing = [case for case in cases if case.proposal.proposed is not None]
    proposed = {
        key: case.proposal.proposed
        for key, case in bounding_cases(changing).items()
        if key in today.observations and case.proposal.proposed is not None
    }
    sensors = [today.observations[key].sensor for key in sorted(proposed)]
    return {
        traffic.key: forecast_by_broker(traffic, proposed[traffic.key], rules)
        for traffic in traffic_of(data, sensors)
    }


def split_forecasts(
    decisions: ds.Dataset, cases: Sequence[Case], rules: Mapping[int, BrokerRule]
) -> dict[SensorId, tuple[BrokerForecast, ...]]:
    """Return the forecasts of splits among ``cases``: of what leaves the bucket, and its rest."""
    forecasts = {}
    split = {
        case.leaves.seen.sensor.key: case
        for case in cases
        if case.leaves is not None and case.proposal.proposed is not None
    }
    client_ids = {key: (case.observations[0].sensor.key[2],) for key, case in split.items()}
    for parts in parts_of(decisions, client_ids):
        case = split[parts.whole.key]
        forecasts[case.observations[0].sensor.key] = tuple(_after(case, parts, rules))
    return forecasts


def _after(case: Case, parts: Parts, rules: Mapping[int, BrokerRule]) -> Iterator[BrokerForecast]:
    proposed = case.proposal.proposed
    assert proposed is not None
    if parts.alone is not None:
        yield from forecast_by_broker(parts.alone, proposed, rules)
    if parts.others is not None:
        yield from forecast_by_broker(parts.others, case.current, rules)


def write_files(recommendations: pa.Table, folder: Path) -> tuple[Path, ...]:
    """Write recommendations.csv, apply.sh and rollback.sh into ``folder``; return their paths.

    The scripts are executable and do nothing without BOOTSTRAP. In the CSV an empty field is null,
    and a text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table, apply, rollback = (folder / n for n in (CSV_FILE, APPLY_FILE, ROLLBACK_FILE))
    with table.open("wb") as file:
        csv.write_csv(_without_formulas(recommendations), file)
    # One call of the tool sets one value: what else is in force does not matter.
    scripts = render("kafka-configs", proposed_alterations(recommendations.to_pylist()), ())
    _write_script(apply, scripts.text)
    _write_script(rollback, scripts.rollback)
    return table, apply, rollback


def _without_formulas(rows: pa.Table) -> pa.Table:
    for i, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            texts = [t if t is None else without_formulas(t) for t in rows[field.name].to_pylist()]
            rows = rows.set_column(i, field, pa.array(texts, field.type))
    return rows


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
