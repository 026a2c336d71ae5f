"""What one run found, read from its published tables and files: figures, data quality, news."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.errors import BadInputError
from spark_jobs.judge.decision_counts import count_decisions, sensor_uses, verdict_counts
from spark_jobs.judge.log_span import brokers_of, span_of
from spark_jobs.judge.throttles import (
    throttled_by_second,
    throttled_sensors,
)
from spark_jobs.publish.facts.audit_facts import Agreement, AuditFacts, SensorAgreement
from spark_jobs.publish.facts.findings import Finding, evidence_items, finding_of
from spark_jobs.publish.facts.news import News
from spark_jobs.publish.facts.proposals import FILES, ChangeResult, ProposedQuota
from spark_jobs.publish.facts.quality import (
    LinesOfFile,
    QuarantineReason,
    StageQuality,
    worst_quality,
)
from spark_jobs.publish.facts.timelines import (
    EntityTimeline,
    SensorHistory,
    quota_timelines,
    thinned,
)
from spark_jobs.publish.follow.changes import Change, DayFindings, changes_of
from spark_jobs.publish.follow.kept_files import (
    Acknowledgement,
    Owners,
    read_acknowledgements,
    read_owners,
)
from spark_jobs.publish.follow.problem import Problem, WorseWhen, problems_of
from spark_jobs.quota.codes import severity_rank
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.settings import FollowSettings
from spark_jobs.warehouse.pipeline import AUDIT_STAGES
from spark_jobs.warehouse.read import read_batches, read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import is_irregular
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS, TABLES
from spark_jobs.wording.visible_text import visible

_AGREEMENT = [
    "decisions", "same_decision", "throttles", "within_1ms", "residual_max_ms", "proven",
]  # fmt: skip
_HISTORY = [*SENSOR_COLUMNS, "second_ms", "rate", "tokens", "bound"]


def gather(scope: RunScope) -> AuditFacts:
    """Return the facts that the run of ``scope`` found."""
    counted = count_decisions(scope)
    uses = sensor_uses(counted)
    by_second = throttled_by_second(scope)
    brokers = brokers_of(scope)
    return AuditFacts(
        scope=scope,
        brokers=brokers,
        span_ms=span_of(brokers),
        counted=tuple(counted),
        verdicts=verdict_counts(counted),
        findings=findings_of(scope),
        uses=uses,
        throttled=throttled_sensors(by_second, uses),
        throttled_by_second=by_second,
        proposals=proposals_of(scope),
        stages=stages_of(scope),
        files=lines_of_files(scope),
        agreement=agreement_of(scope),
        news=news_of(scope),
        applied=change_results_of(scope),
    )


def findings_of(scope: RunScope) -> tuple[Finding, ...]:
    """Return the findings of the run, critical ones first, then those with most decisions."""
    findings = [finding_of(row) for row in read_table(scope, "findings").to_pylist()]
    findings.sort(key=lambda f: (severity_rank(f.severity), -f.decisions, f.from_ms, f.finding_id))
    return tuple(findings)


def proposals_of(scope: RunScope) -> tuple[ProposedQuota, ...]:
    """Return the recommendations, in order of the throttle time they are about, longest first."""
    rows = read_table(scope, "recommendations").to_pylist()
    proposals = [
        ProposedQuota(
            **row | {"reason": visible(row["reason"]), "evidence": evidence_items(row["evidence"])}
        )
        for row in rows
    ]
    proposals.sort(key=lambda p: (-(p.throttle_time_ms_before or 0), p.quota_type, p.entity))
    return tuple(proposals)


def change_results_of(scope: RunScope) -> tuple[ChangeResult, ...]:
    """Return the applied changes, those not as predicted first, then the newest first."""
    rows = read_table(scope, "change_results").to_pylist()
    names = set(ChangeResult.__dataclass_fields__) - {"explanation"}
    found = [
        ChangeResult(
            explanation=visible(row["explanation"]),
            **{name: row[name] for name in names},
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda r: (r.is_kept, -r.applied_ms, r.quota_type, r.entity)))


def written_files(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return name and description of the recommendation files in a report's folder."""
    return tuple((name, what) for name, what in FILES.items() if (folder / name).is_file())


def agreement_of(scope: RunScope) -> Agreement:
    """Return the agreement of a day's replay, by sensor."""
    rows = read_table(scope, "agreement", [*SENSOR_COLUMNS, *_AGREEMENT]).to_pylist()
    found = (
        SensorAgreement(SensorKey.of(row), **{name: row[name] for name in _AGREEMENT})
        for row in rows
        if row["throttles"]
    )
    return Agreement(tuple(sorted(found, key=lambda s: (s.within_1ms - s.throttles, s.sensor))))


def read_timelines(scope: RunScope, span_ms: tuple[int, int]) -> tuple[EntityTimeline, ...]:
    """Return the quotas that held at some time of ``span_ms`` (first, last; epoch ms)."""
    first, last = span_ms
    begun = ds.field("valid_from_ms") <= last
    not_over = ds.field("valid_until_ms").is_null() | (ds.field("valid_until_ms") > first)
    rows = read_table(scope, "quota_changes", TABLES["quota_changes"].names, begun & not_over)
    return quota_timelines(rows.to_pylist(), span_ms)


def sensor_histories(
    scope: RunScope, sensors: Iterable[SensorKey], throttled: Mapping[SensorKey, set[int]]
) -> dict[SensorKey, SensorHistory]:
    """Return the history of each of ``sensors`` that has rows in ``rates``.

    ``throttled`` holds the seconds in which each sensor throttled.
    """
    chosen = list(sensors)
    rows = read_table(scope, "rates", _HISTORY, sensor_filter(chosen))
    histories = {}
    for sensor in chosen:
        own = rows.filter(sensor_filter([sensor])).sort_by("second_ms")
        if own.num_rows:
            histories[sensor] = thinned(sensor, own, throttled.get(sensor, set()))
    return histories


SAMPLES_MAX = 3
_SAMPLE_LENGTH_MAX = 200


def stages_of(scope: RunScope) -> tuple[StageQuality, ...]:
    """Return the results of validation at each stage."""
    return tuple(stage_of(scope, stage) for stage in AUDIT_STAGES)


def stage_of(scope: RunScope, stage: str) -> StageQuality:
    """Return the results of validation at ``stage``; ``outcome`` tells if they cannot be read."""
    path = scope.output_dir("data_quality") / f"{stage}.json"
    if not path.is_file():
        return StageQuality(stage)
    try:
        return msgspec.json.decode(path.read_bytes(), type=StageQuality)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The report still helps; whoever reads it must know that this part is missing.
        return StageQuality(stage, outcome=f"not readable: {path.name}")


def data_docs_of(scope: RunScope) -> tuple[tuple[str, str], ...]:
    """Return each stage that has Data Docs, with their address as seen from the report."""
    folder = scope.output_dir("data_docs")
    shown = quote(scope.plain_dir("data_docs").relative_to(scope.warehouse).as_posix())
    return tuple(
        (stage, f"../../../{shown}/{stage}/index.html")
        for stage in AUDIT_STAGES
        if (folder / stage / "index.html").is_file()
    )


def lines_of_files(scope: RunScope) -> tuple[LinesOfFile, ...]:
    """Return the counts of each file's lines by where they went, files in order of their name."""
    names = [f.name for f in fields(LinesOfFile)]
    rows = read_table(scope, "files", names).sort_by("source_file").to_pylist()
    # A day ingested before duplicates were counted has no number of them.
    return tuple(LinesOfFile(**row | {"duplicated": row["duplicated"] or 0}) for row in rows)


def quarantine_reasons(scope: RunScope) -> tuple[QuarantineReason, ...]:
    """Return the reasons why lines could not be read, the most frequent first."""
    lines: Counter[str] = Counter()
    first: dict[str, list[dict[str, Any]]] = {}
    columns = ["reason", "source_file", "source_line", "text"]
    for batch in read_batches(scope, "quarantine", columns):
        rows = pa.Table.from_batches([batch]).sort_by(
            [("source_file", "ascending"), ("source_line", "ascending")]
        )
        lines.update(rows["reason"].to_pylist())
        for reason in pc.unique(rows["reason"]).to_pylist():
            own = rows.filter(pc.equal(rows["reason"], reason)).slice(0, SAMPLES_MAX)
            seen = [*first.get(reason, []), *own.to_pylist()]
            seen.sort(key=lambda row: (row["source_file"], row["source_line"]))
            first[reason] = seen[:SAMPLES_MAX]
    return tuple(
        QuarantineReason(
            reason,
            number,
            tuple((s["source_file"], s["source_line"], _cut(s["text"])) for s in first[reason]),
        )
        for reason, number in sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    )


def _cut(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _SAMPLE_LENGTH_MAX else f"{text[: _SAMPLE_LENGTH_MAX - 1]}…"


_DAY_MS = ROLLUP_SPANS_MS[-1]


def followed_days(scope: RunScope) -> list[DayFindings]:
    """Return the audited days up to and with that of ``scope``, oldest first."""
    earliest = scope.day - dt.timedelta(days=FollowSettings().history_days)
    known = days_of(scope.warehouse, scope.cluster, "findings")
    days = [day for day in known if earliest <= day < scope.day]
    scopes = [*(scope.on(day) for day in days), scope]
    found = [problems_of(read_table(one, "findings").to_pylist(), scope.cluster) for one in scopes]
    ever = {problem.sensor for problems in found for problem in problems.values()}
    return [
        DayFindings(one.day, problems, _seen(one, problems, ever))
        for one, problems in zip(scopes, found, strict=True)
    ]


def changes_on(
    days: list[DayFindings], acknowledgements: Sequence[Acknowledgement] = ()
) -> list[Change]:
    """Return the change of each problem on the last of ``days``, what is worst first."""
    settings = FollowSettings()
    worse_when = WorseWhen(settings.worse_ratio, settings.worse_decisions)
    return changes_of(days, acknowledgements, worse_when)


def acknowledged_path(warehouse: Path) -> Path:
    """Return the path of the file of acknowledgements, written or not."""
    return FollowSettings().acknowledged or warehouse / "acknowledged.yaml"


def acknowledgements_of(warehouse: Path) -> list[Acknowledgement]:
    """Return the acknowledgements; none where there is no file. None is longer than is allowed.

    Raises BadInputError where the file cannot be read.
    """
    path = acknowledged_path(warehouse)
    text = _text(path)
    days_max = FollowSettings().acknowledged_days_max
    found = [] if text is None else read_acknowledgements(text, str(path))
    return [one.within(days_max) for one in found]


def owners_of(warehouse: Path) -> Owners | None:
    """Return the owners of clients; None where no file names them.

    Raises BadInputError where the file cannot be read, or was named and is not there.
    """
    named = FollowSettings().owners
    path = named or warehouse / "owners.yaml"
    text = _text(path)
    if text is None and named is not None:
        raise BadInputError(
            f"There is no file {path}, which QUOTA_AUDIT_FOLLOW_OWNERS names. Write it, or leave "
            "the setting out."
        )
    return None if text is None else read_owners(text, str(path))


def _text(path: Path) -> str | None:
    if is_irregular(path):
        raise BadInputError(f"{path} is no regular file. It should be YAML in UTF-8.")
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{path} cannot be read: {error}. It should be YAML in UTF-8."
        ) from error


def _seen(
    scope: RunScope, problems: Mapping[str, Problem], ever: Iterable[SensorKey]
) -> frozenset[SensorKey]:
    """Return those of the sensors ``ever`` in trouble that counted something on the day."""
    missing = set(ever) - {problem.sensor for problem in problems.values()}
    if not missing:
        return frozenset(ever)
    of_day = (ds.field("span_ms") == _DAY_MS) & _is_any_of(missing)
    rows = read_table(scope, "rate_rollups", [*SENSOR_COLUMNS], of_day).to_pylist()
    return frozenset(SensorKey(**row) for row in rows) | (set(ever) - missing)


def _is_any_of(sensors: set[SensorKey]) -> ds.Expression:
    """Return a condition that keeps at least the rows of these sensors."""
    users = pa.array(sorted({sensor.quota_user for sensor in sensors}))
    client_ids = pa.array(sorted({sensor.quota_client_id for sensor in sensors}))
    return ds.field("quota_user").isin(users) & ds.field("quota_client_id").isin(client_ids)


Kept = TypeVar("Kept")


def news_of(scope: RunScope) -> News:
    """Return the news of the day of ``scope``, as it is published."""
    scope = scope.pinned()
    days = followed_days(scope)
    acknowledgements, why_none_is_known = _or_none(acknowledgements_of, scope.warehouse)
    owners, why_none_owns = _or_none(owners_of, scope.warehouse)
    stages = stages_of(scope)
    return News(
        cluster=scope.cluster,
        day=scope.day,
        before=days[-2].day if len(days) > 1 else None,
        changes=changes_on(days, acknowledgements or ()),
        data_quality=worst_quality(stages),
        broken_rules=tuple(
            f"{table.table}: {rule.rule}" for stage in stages for table, rule in stage.broken_rules
        ),
        owners=owners,
        errors=tuple(why for why in (why_none_is_known, why_none_owns) if why is not None),
    )


def _or_none(read: Callable[[Path], Kept], warehouse: Path) -> tuple[Kept | None, str | None]:
    """Return a file's content, or its error: no file that people keep may stop a day's news."""
    try:
        return read(warehouse), None
    except BadInputError as error:
        return None, str(error)
