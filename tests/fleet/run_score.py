"""What an audit said of one run of sound brokers, counted: the same for real and simulated ones.

The figures are those of ``quota-audit score`` (:mod:`spark_jobs.score`). A run is whatever the
brokers of one archive, or one of them, did under one scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import msgspec

from spark_jobs.ingest.archive import Archive
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.replay.verdicts.verdicts import THROTTLED_WITHOUT_QUOTA
from spark_jobs.score.agreement import COLUMNS, FIRST_QUOTA_SLACK_MS, Tally, compare
from spark_jobs.score.score_capture import read_capture, share
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope

ACCUSING_SEVERITIES = ("critical", "warning")
UNDECIDED, UNBOUND = "indeterminate", "no_quota"

_TOLD = (
    "broker_id", "quota_type", "quota_user", "quota_client_id", "source_file", "source_line",
    "log_time_ms", "bound", "amount", "logged_throttle_time_ms", "replayed_throttle_time_ms",
    "logged_admitted", "replayed_admitted", "verdict", "reason", "is_proven",
)  # fmt: skip
_READ = list(dict.fromkeys((*COLUMNS, *_TOLD)))


class Run(msgspec.Struct, frozen=True):
    """One run of brokers: its name, their version, and under which conditions they ran.

    ``is_loaded`` where other processes kept the machine busy meanwhile.
    """

    name: str
    kafka_version: str
    layout: str = ""
    is_loaded: bool = False
    pauses: int = 0


class Accusation(msgspec.Struct, frozen=True):
    """One decision that was called wrong, and where its line is."""

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str
    source_file: str
    source_line: int
    log_time_ms: int
    bound: float | None
    amount: float | None
    logged_throttle_time_ms: int
    replayed_throttle_time_ms: int | None
    logged_admitted: bool
    replayed_admitted: bool | None
    verdict: str
    reason: str | None
    is_proven: bool


class AccusingFinding(msgspec.Struct, frozen=True):
    """One finding of warning or critical; ``wrong`` counts its sensor's wrong decisions."""

    severity: str
    kind: str
    broker_id: int | None
    quota_type: str
    quota_user: str
    quota_client_id: str
    hypothesis: str | None
    explanation: str
    wrong: int


class RunScore(msgspec.Struct, frozen=True):
    """The figures of one run; ``produces`` and ``mutations`` are the tallies of the score.

    ``verdicts`` counts the decisions under a quota by type and verdict, ``undecided`` those that
    are indeterminate by type and reason. ``missing`` requests were due and have no decision.
    """

    run: Run
    produces: Tally
    mutations: Tally
    verdicts: dict[str, dict[str, int]]
    undecided: dict[str, dict[str, int]]
    missing: int
    accusations: tuple[Accusation, ...]
    findings: tuple[AccusingFinding, ...]

    @property
    def decisions(self) -> int:
        """Return how many decisions were made under a quota, of all types."""
        return sum(sum(counts.values()) for counts in self.verdicts.values())

    @property
    def decided(self) -> int:
        """Return how many of them were judged."""
        return self.decisions - sum(counts.get(UNDECIDED, 0) for counts in self.verdicts.values())

    @property
    def decision_agreement(self) -> float | None:
        """Return the share of produces that both sides throttled or let pass; None of none."""
        return share(self.produces.agreeing, self.produces.decisions)

    @property
    def throttle_within_1ms(self) -> float | None:
        """Return the share of throttles that the replay gives to the millisecond; None of none."""
        return share(self.produces.within_1ms, self.produces.throttled)

    @property
    def mutation_agreement(self) -> float | None:
        """Return the share of mutations that were admitted as replayed; None of none."""
        return share(self.mutations.agreeing, self.mutations.decisions)

    @property
    def is_accusing(self) -> bool:
        """Return whether anything sound was accused."""
        return bool(self.accusations or self.findings)


def score_run(run: Run, archive: Archive, scopes: Sequence[RunScope]) -> RunScore:
    """Return the score of all brokers of an archive, audited into the days ``scopes``."""
    return _score(run, archive, _rows(scopes, "decisions", _READ), *_beside(scopes))


def score_brokers(
    runs: Mapping[int, Run], archive: Archive, scopes: Sequence[RunScope]
) -> list[RunScore]:
    """Return a score of each broker whose id is in ``runs``, in that order: each a run alone."""
    decisions = _by_broker(_rows(scopes, "decisions", _READ), runs.keys())
    findings, events = (_by_broker(rows, runs.keys()) for rows in _beside(scopes))
    return [
        _score(
            run, _logs_of(archive, broker_id), decisions[broker_id], findings[broker_id],
            events[broker_id],
        )
        for broker_id, run in runs.items()
    ]  # fmt: skip


def _beside(scopes: Sequence[RunScope]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return _rows(scopes, "findings", None), _rows(scopes, "quota_events", None)


def _rows(
    scopes: Sequence[RunScope], table: str, columns: list[str] | None
) -> list[dict[str, Any]]:
    return [row for scope in scopes for row in read_table(scope, table, columns).to_pylist()]


def _by_broker(
    rows: Iterable[dict[str, Any]], broker_ids: Set[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of each broker; a row of no broker belongs to all of them."""
    found: dict[int, list[dict[str, Any]]] = {broker_id: [] for broker_id in broker_ids}
    for row in rows:
        of = row["broker_id"]
        for broker_id in broker_ids if of is None else broker_ids & {of}:
            found[broker_id].append(row)
    return found


def _logs_of(archive: Archive, broker_id: int) -> Archive:
    own = tuple(log for log in archive.request_logs if log.broker_id == broker_id)
    return replace(archive, request_logs=own)


def _score(
    run: Run,
    archive: Archive,
    decisions: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    events: list[dict[str, Any]],
) -> RunScore:
    # The lines say when they were written in the zone of the lab and of the simulation.
    logged = read_capture(archive, "UTC")
    logged.take_known_quotas(events)
    found = compare(decisions, logged)
    due = logged.due_decisions(FIRST_QUOTA_SLACK_MS)
    accused = [row for row in decisions if is_accused(row)]
    wrong = Counter(_sensor(row) for row in accused)
    return RunScore(
        run=run,
        produces=found.total("producer_byte_rate"),
        mutations=found.total("controller_mutation_rate"),
        verdicts=_counted((row for row in decisions if _is_counted(row)), "verdict"),
        undecided=_counted((row for row in decisions if row["verdict"] == UNDECIDED), "reason"),
        missing=sum(found.rows_of[key] != 1 for key in due),
        accusations=tuple(Accusation(**{name: row[name] for name in _TOLD}) for row in accused),
        findings=tuple(
            _accusing(row, wrong[_sensor(row)])
            for row in findings
            if row["severity"] in ACCUSING_SEVERITIES
        ),
    )


def is_accused(row: Mapping[str, Any]) -> bool:
    """Return whether a decision is called wrong: what findings are made of."""
    return row["verdict"] in WRONG_VERDICTS or row["reason"] == THROTTLED_WITHOUT_QUOTA


def _is_counted(row: Mapping[str, Any]) -> bool:
    return row["verdict"] != UNBOUND or is_accused(row)


def _counted(rows: Iterable[Mapping[str, Any]], by: str) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["quota_type"], Counter())[row[by]] += 1
    return {quota_type: dict(counts) for quota_type, counts in sorted(found.items())}


def _accusing(row: Mapping[str, Any], wrong: int) -> AccusingFinding:
    own = {name: row[name] for name in AccusingFinding.__struct_fields__ if name != "wrong"}
    return AccusingFinding(**own, wrong=wrong)


def _sensor(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("broker_id", "quota_type", "quota_user", "quota_client_id"))
