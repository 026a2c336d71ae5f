"""Answering how far a replay agrees with what the brokers of a capture logged."""

from __future__ import annotations

import datetime as dt
import tempfile
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile, choose_cluster, find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.ingest.log_stream import TruncatedFileError, log_lines
from spark_jobs.quota.codes import BANDWIDTH_TYPES
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.broker_rules import rules_of
from spark_jobs.replay.replay_quotas import carried_states, replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.score.agreement import COLUMNS, FIRST_QUOTA_SLACK_MS, Agreement, Tally, compare
from spark_jobs.score.consistency import Consistency, check_consistency
from spark_jobs.score.logged_outcomes import DecisionKey, LoggedOutcomes, read_outcomes
from spark_jobs.settings import IngestSettings
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.write import write_table

BOUND_FACTOR = 1.05
# A version of the other arithmetic of samples.
_OTHER_VERSION = {
    RateProfile.RATE_0_9: "4.1.0",
    RateProfile.RATE_3_3: "4.1.0",
    RateProfile.RATE_3_8: "3.7.2",
}
SHOWN = ("produce_decisions", "decision_agreement", "throttled", "throttle_within_1ms", "flagged")


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What to score; ``warehouse`` None audits the capture into a temporary one.

    ``bound_factor`` other than 1 multiplies every bandwidth quota before the replay: a control,
    which must score clearly worse.
    """

    capture: Path
    options: IngestOptions
    warehouse: Path | None = None
    cluster: str | None = None
    day: dt.date | None = None
    bound_factor: float = 1.0
    planted: Path | None = None


def score_capture(request: ScoreRequest) -> dict[str, Any]:
    """Return the figures of a capture by name, those of each sensor under ``sensors``.

    Raises BadInputError where there is nothing to score.
    """
    planted = None
    if request.planted is not None:
        planted = read_planted(_bytes_of(request.planted), str(request.planted))
    archive = find_archive(request.capture, choose_cluster(request.capture, request.cluster))
    logged = read_capture(archive, request.options.timezone)
    with _audited(request, archive) as scopes:
        rows = _decisions(scopes)
        rules = {b: rule for scope in scopes for b, rule in rules_of(scope, {}).items()}
        before = carried_states(scopes[0].day_before)
        logged.take_known_quotas(
            row for scope in scopes for row in read_table(scope, "quota_events").to_pylist()
        )
        profiles = sorted({rule.profile for rule in rules.values()})
    found = compare(rows, logged)
    figures = capture_figures(found, logged, check_consistency(rows, rules, before))
    if not (figures["produce_decisions"] or figures["mutation_decisions"]):
        raise BadInputError(
            f"{request.capture}: no produce and no mutation of it was decided under a quota, so "
            "there is nothing to score. Expected request logs in which quotas are set, or a "
            "quota-snapshot file beside them."
        )
    if planted is not None:
        figures |= planted_figures(planted, found.flagged)
    own = {"rate_profiles": profiles, "sensors": sensor_figures(found.sensors)}
    return figures | own


def score_controls(request: ScoreRequest, profile: RateProfile) -> dict[str, dict[str, Any]]:
    """Return SHOWN of the capture's figures by control; each is an audit of its own.

    What fits the brokers because it could fit anything would fit these as well: under quotas or
    rates known to be wrong, both must score clearly worse. ``profile`` is what the brokers count
    by. A warehouse that ``request`` names is not used.
    """
    controls = _controls(replace(request, warehouse=None, planted=None), profile)
    figures_of = {name: score_capture(control) for name, control in controls}
    return {
        name: {figure: figures[figure] for figure in SHOWN} for name, figures in figures_of.items()
    }


def _controls(request: ScoreRequest, profile: RateProfile) -> Iterator[tuple[str, ScoreRequest]]:
    yield f"every bound x {BOUND_FACTOR}", replace(request, bound_factor=BOUND_FACTOR)
    version = _OTHER_VERSION[profile]
    options = replace(request.options, versions={None: version})
    yield f"the rate of {version}", replace(request, options=options)


def read_capture(archive: Archive, timezone: str) -> LoggedOutcomes:
    """Return the outcomes in the request logs of an archive, all that can be read of them.

    Raises BadInputError where no folder names the broker of a log.
    """
    logged = LoggedOutcomes()
    for log in archive.request_logs:
        if log.broker_id is None:
            raise BadInputError(
                f"{log.source_file}: the score needs to know whose log this is. Put it below a "
                "folder broker=<id>."
            )
        read_outcomes(_lines(log), log.broker_id, zoneinfo.ZoneInfo(timezone), logged)
    return logged


def _lines(log: LogFile) -> Iterator[bytes]:
    try:
        yield from log_lines(log.path, IngestSettings().unpacked_ratio_max)
    except TruncatedFileError:
        return


@contextmanager
def _audited(request: ScoreRequest, archive: Archive) -> Iterator[list[RunScope]]:
    """Yield the audited days to score, in order: those of a warehouse, or of a temporary one."""
    if request.warehouse is not None:
        days = days_of(request.warehouse, archive.cluster, "decisions")
        days = [day for day in days if request.day in (None, day)]
        if not days:
            raise BadInputError(
                f"{request.warehouse} holds no replayed day of the cluster {archive.cluster!r}"
                f"{f' on {request.day}' if request.day else ''}. Run 'quota-audit run' on the "
                "capture first, or leave out --warehouse."
            )
        yield [RunScope(request.warehouse, archive.cluster, day) for day in days]
        return
    with tempfile.TemporaryDirectory(prefix="quota-audit-score-") as folder:
        yield audit_to_score(request, archive, Path(folder))


def audit_to_score(request: ScoreRequest, archive: Archive, warehouse: Path) -> list[RunScope]:
    """Return the days of a capture, replayed into ``warehouse``."""
    with spark_session("score") as spark:
        report = ingest_requests(spark, archive, warehouse, request.day, request.options)
        for scope in report.scopes:
            resolve_quotas(scope)
            if request.bound_factor != 1:
                _multiply_bounds(scope, request.bound_factor)
            replay_quotas(spark, scope)
    return list(report.scopes)


def _multiply_bounds(scope: RunScope, factor: float) -> None:
    changes = read_table(scope, "quota_changes")
    is_bandwidth = pc.is_in(changes["quota_type"], pa.array(BANDWIDTH_TYPES))
    bounds = pc.if_else(is_bandwidth, pc.multiply(changes["bound"], factor), changes["bound"])
    column = changes.schema.get_field_index("bound")
    write_table(
        changes.set_column(column, changes.schema.field(column), bounds), "quota_changes", scope
    )


def _decisions(scopes: Sequence[RunScope]) -> list[dict[str, Any]]:
    tables = [read_table(scope, "decisions", list(COLUMNS)) for scope in scopes]
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return rows


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}. Check the path.") from error


def share(part: int, whole: int) -> float | None:
    """Return ``part`` of ``whole``; None of nothing.

    >>> share(1, 4), share(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


def capture_figures(
    found: Agreement, logged: LoggedOutcomes, consistency: Consistency
) -> dict[str, Any]:
    """Return the figures of a whole capture by name, in the order they are read.

    Shares are None where there was nothing to count.
    """
    produces = found.total("producer_byte_rate")
    mutations = found.total("controller_mutation_rate")
    due = list(logged.due_decisions(FIRST_QUOTA_SLACK_MS))
    return {
        "produce_decisions": produces.decisions,
        "decision_agreement": share(produces.agreeing, produces.decisions),
        "throttled": produces.throttled,
        **_throttle_shares(produces),
        "mutation_decisions": mutations.decisions,
        "mutation_agreement": share(mutations.agreeing, mutations.decisions),
        "coverage": share(sum(found.rows_of[key] == 1 for key in due), len(due)),
        "duplicates": sum(rows > 1 for rows in found.rows_of.values()),
        "rows_not_in_log": found.rows_not_in_log,
        "indeterminate_share": share(produces.indeterminate, produces.decisions),
        "consistent": share(consistency.equal, consistency.checked),
        "admissible": share(found.inside_phases, found.produce_rows),
        "flags_by_type": dict(found.flags_by_type),
        "flagged_bandwidth": sum(found.flags_by_type[kind] for kind in BANDWIDTH_TYPES),
        "flagged": len(found.flagged),
    }


def sensor_figures(sensors: Mapping[SensorKey, Tally]) -> list[dict[str, Any]]:
    """Return the figures of each sensor that decided something or was flagged, in key order."""
    rows = []
    for key in sorted(sensors):
        tally = sensors[key]
        if not (tally.decisions or tally.flagged):
            continue
        rows.append(
            {
                **key._asdict(),
                "decisions": tally.decisions,
                "decision_agreement": share(tally.agreeing, tally.decisions),
                "throttled": tally.throttled,
                **_throttle_shares(tally),
                "indeterminate_share": share(tally.indeterminate, tally.decisions),
                "flagged": tally.flagged,
            }
        )
    return rows


def _throttle_shares(tally: Tally) -> dict[str, float | None]:
    return {
        "throttle_exact": share(tally.exact, tally.throttled),
        "throttle_within_1ms": share(tally.within_1ms, tally.throttled),
        "throttle_within_5ms": share(tally.within_5ms, tally.throttled),
    }


class _Truth(msgspec.Struct):
    violations: list[DecisionKey]


def read_planted(text: bytes, where: str) -> frozenset[DecisionKey]:
    """Return the planted faults of a truth file, an object with ``violations``.

    Each is [broker id, connection, correlation id, topic or null]. Raises BadInputError naming
    ``where``.
    """
    try:
        return frozenset(msgspec.json.decode(text, type=_Truth).violations)
    except msgspec.DecodeError as error:
        raise BadInputError(
            f"{where} is no list of planted faults: {error}. Expected "
            '{"violations": [[<broker id>, "<connection>", <correlation id>, "<topic>" or null]]}.'
        ) from error


def planted_figures(
    planted: Set[DecisionKey], flagged: Set[DecisionKey]
) -> dict[str, int | float | None]:
    """Return recall and precision of planted faults; those of bandwidth are without mutations."""
    found = planted & flagged
    bandwidth_found, bandwidth_flagged = (
        sum(key[3] is None for key in keys) for keys in (found, flagged)
    )
    return {
        "tampered": len(planted),
        "recall": share(len(found), len(planted)),
        "precision": share(len(found), len(flagged)),
        "precision_bandwidth": share(bandwidth_found, bandwidth_flagged),
    }
