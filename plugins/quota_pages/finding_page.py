"""The page of one finding: what was found, what else was considered, and on which decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from quota_pages.history import Wanted
from quota_pages.page import Place, render
from spark_jobs.publish.facts.findings import Finding, finding_of
from spark_jobs.publish.facts.news import changes_in_words
from spark_jobs.publish.read_facts import news_of
from spark_jobs.quota.codes import BANDWIDTH_TYPES, WRONG_VERDICTS
from spark_jobs.settings import FollowSettings
from spark_jobs.warehouse.days import later_day
from spark_jobs.warehouse.read import open_table, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS
from spark_jobs.wording.names import VERDICTS, counted
from spark_jobs.wording.numbers import NONE, duration, moment, significant, size
from spark_jobs.wording.visible_text import shortened

HYPOTHESES = {
    "configured_quota": ("the configured value", "The broker did what is configured."),
    "previous_quota": (
        "an earlier value",
        "The broker went by an earlier value of this client: the change had not reached it, for "
        "longer than changes take, or a removed value stayed in force.",
    ),
    "other_level": (
        "the value of another level",
        "The broker went by another value that matches this client, such as a default.",
    ),
    "unknown_quota": (
        "a value nobody knows of",
        "The broker went by a value that is nowhere on record; it is estimated from the throttles "
        "alone.",
    ),
    "not_enforced": ("no enforcement at all", "The broker throttled nothing."),
    "other_rate_profile": (
        "the rate of another version",
        "The broker counts as another Kafka version does, as in a cluster of mixed versions.",
    ),
    "state_lost": (
        "a restart",
        "The broker had forgotten what it had counted, after a restart or an expiry.",
    ),
    "counted_apart": (
        "a connection that is counted apart",
        "The broker counted one connection's requests on their own, not with the client's others.",
    ),
    "client_ignores_throttle": (
        "connections that are not held back",
        "The broker read a connection more than 100 ms before its throttle had ended.",
    ),
    "request_quota": (
        "a request quota",
        "The request quota of the same request throttled it, by up to one window.",
    ),
    "lines_missing": (
        "missing lines",
        "The broker may have counted requests that are not in the log.",
    ),
}
"""By ``codes.HYPOTHESES``: a name, and what the broker then did."""

_LOOK_AT_ONE = (
    "Open some of the decisions below: each explanation shows the arithmetic, with the value and "
    "what the broker had counted. If that value is not what was configured, the record of changes "
    "is wrong (docs/quota-timeline.md); if it is, take the explanation to whoever runs the broker."
)
_ASK_THE_CLUSTER = (
    "Ask the cluster which value it has (kafka-configs.sh --describe). If it is the configured "
    "one, see in this broker's log whether the change arrived. If it is another, the audit was not "
    "told of a change: give it a snapshot (docs/quota-timeline.md)."
)
WHAT_TO_DO = {
    "wrong_quota": _ASK_THE_CLUSTER,
    "not_enforced": _ASK_THE_CLUSTER,
    "under_throttled": _LOOK_AT_ONE,
    "over_throttled": _LOOK_AT_ONE,
    "wrongly_admitted": _LOOK_AT_ONE,
    "wrongly_refused": _LOOK_AT_ONE,
    "other_rate_profile": (
        "See which version this broker runs. If it is the right one, tell the audit: "
        "--broker-version, or a kafka-version.txt in the archive."
    ),
    "state_lost": (
        "See whether the broker was restarted at that time. Archive its server.log too: the audit "
        "then knows of starts, and takes this for no fault."
    ),
    "counted_apart": (
        "If the broker has its own client.quota.callback.class or principal.builder.class, see "
        "which metric tags it gives to this connection's requests. If it has not, take the "
        "decisions below to whoever runs the broker."
    ),
    "throttle_ignored": (
        "Brokers since 2.0 do not read a connection until its throttle has ended, so this is no "
        "matter of the client alone: see which version this broker runs."
    ),
    "lines_missing": (
        "Nobody is accused. Look for rotated files that are missing from the archive, and for "
        "brokers whose log is not in it; then audit the day again."
    ),
    "disagrees_with_metrics": (
        "Nobody is accused: the log does not show what the broker counted, so what else is said of "
        "this client may be wrong too. Complete the archive, or correct the clock or time zone; "
        "then audit the day again (docs/crosscheck.md)."
    ),
}
"""By ``codes.FINDING_KINDS``."""

_CONFIGURED = "configured_quota"
# What happened just before and after an interval is a part of its picture.
_MARGIN_MIN_MS = 60_000
_MARGIN_SHARE = 0.1
KNOWN_DAYS = 14
"""A finding is acknowledged for this long where a person does not choose another day."""
SHOWN_MAX = 50
EXPLAINED_WITHIN_MS = 2
"""What docs/tables.md calls explained: rounding, and an event on a sample's very edge."""
_MUTATION = "controller_mutation_rate"
_DECISION_COLUMNS = [
    "recorded_at_ms",
    "api_name",
    "client_id",
    "resource",
    "amount",
    "bound",
    "rate",
    "tokens",
    "logged_throttle_time_ms",
    "replayed_throttle_time_ms",
    "logged_admitted",
    "replayed_admitted",
    "verdict",
    "reason",
    "source_file",
    "source_line",
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One explanation that was considered, and the share of the decisions that it explains."""

    name: str
    meaning: str
    share: float
    rank: str


def finding_page(place: Place, scope: RunScope, finding_id: str) -> str | None:
    """Return the page of a finding of the day; None where no finding has this id."""
    is_it = ds.field("finding_id") == finding_id
    rows = read_table(scope, "findings", FINDINGS.names, is_it).to_pylist()
    if not rows:
        return None
    finding = finding_of(rows[0])
    news = news_of(scope)
    decisions, total = wrong_decisions(scope, finding)
    margin_ms = max(_MARGIN_MIN_MS, round((finding.until_ms - finding.from_ms) * _MARGIN_SHARE))
    known_days_max = FollowSettings().acknowledged_days_max
    return render(
        "finding.html.j2",
        place,
        finding=finding,
        candidates=tuple(_candidates(finding, _configured_share(rows[0]["evidence"]))),
        around_ms=(finding.from_ms - margin_ms, finding.until_ms + margin_ms),
        decisions=decisions,
        decisions_total=total,
        course=changes_in_words(news).get(finding_id),
        errors=news.errors,
        known_until=later_day(scope.day, min(KNOWN_DAYS, known_days_max)),
        known_until_max=later_day(scope.day, known_days_max),
        to_do=WHAT_TO_DO.get(finding.kind, _LOOK_AT_ONE),
        verdicts=VERDICTS,
        shortened=shortened,
    )


def _candidates(finding: Finding, configured_share: float | None) -> Iterator[Candidate]:
    """Yield the explanations considered, the best first; none where no hypothesis was found."""
    considered = [
        ("best", finding.hypothesis, finding.hypothesis_share),
        ("next best", finding.runner_up, finding.runner_up_share),
    ]
    if _CONFIGURED not in (finding.hypothesis, finding.runner_up):
        considered.append(("what is configured", _CONFIGURED, configured_share))
    for rank, hypothesis, share in considered:
        if finding.hypothesis is not None and hypothesis is not None and share is not None:
            name, meaning = HYPOTHESES.get(hypothesis, (hypothesis.replace("_", " "), ""))
            yield Candidate(name, meaning, share, rank)


def _configured_share(evidence: str) -> float | None:
    """Return the share that the configured value explains; None where the evidence does not say."""
    try:
        document = json.loads(evidence)
    except json.JSONDecodeError:
        return None
    share = document.get("configured_share") if isinstance(document, dict) else None
    return float(share) if isinstance(share, (int, float)) else None


def wrong_decisions(scope: RunScope, finding: Finding) -> tuple[list[dict[str, Any]], int]:
    """Return the first decisions that ``finding`` is about, in order of time, and their number.

    Decisions of a sensor are stored in their order: reading stops after the first ones.
    """
    where = _where(finding)
    table = open_table(scope, "decisions")
    rows = table.head(SHOWN_MAX, columns=_DECISION_COLUMNS, filter=where).to_pylist()
    rows.sort(key=lambda row: (row["recorded_at_ms"], row["source_file"], row["source_line"]))
    # A second read counts the decisions, only where there can be more than are shown.
    total = table.count_rows(filter=where) if len(rows) == SHOWN_MAX else len(rows)
    return [_decision(row, finding.quota_type) for row in rows], total


def _where(finding: Finding) -> ds.Expression:
    wanted = Wanted(
        finding.quota_type,
        finding.quota_user,
        finding.quota_client_id,
        finding.from_ms,
        finding.until_ms,
        None if finding.broker_id is None else (finding.broker_id,),
    )
    where = wanted.is_row("recorded_at_ms")
    is_wrong = _is_wrong(finding.kind)
    # One cause explains all: decisions whose difference timing alone could explain count too.
    return where & (is_wrong if finding.hypothesis is None else is_wrong | _differs())


def _differs() -> ds.Expression:
    logged, replayed = ds.field("logged_throttle_time_ms"), ds.field("replayed_throttle_time_ms")
    return (logged > replayed + EXPLAINED_WITHIN_MS) | (logged < replayed - EXPLAINED_WITHIN_MS)


def _is_wrong(kind: str) -> ds.Expression:
    """Return the condition on decisions that a finding of ``kind`` counts, as the judge does."""
    verdict, reason = ds.field("verdict"), ds.field("reason")
    unbound = (verdict == "no_quota") & (reason == "throttled_without_quota")
    if kind == "over_throttled":
        return (verdict == kind) | unbound
    if kind in WRONG_VERDICTS:
        return verdict == kind
    wrong = verdict.isin(WRONG_VERDICTS) | unbound
    if kind == "lines_missing":
        return wrong | ((verdict == "indeterminate") & (reason == kind))
    return wrong


def _decision(row: dict[str, Any], quota_type: str) -> dict[str, Any]:
    """Return a row of ``decisions`` with what the page says of it in words."""
    return row | {
        "clock": moment(row["recorded_at_ms"])[11:23],
        "amount_in_words": _amount(row["amount"], quota_type),
        "logged": _answer(row["logged_throttle_time_ms"], row["logged_admitted"]),
        "replayed": _answer(row["replayed_throttle_time_ms"], row["replayed_admitted"]),
    }


def _amount(amount: float | None, quota_type: str) -> str:
    if amount is None:
        return NONE
    if quota_type in BANDWIDTH_TYPES:
        return size(amount)
    if quota_type == _MUTATION:
        return f"{counted(amount, 'partition')}"
    return f"{significant(amount)} % of a second"


def _answer(throttle_time_ms: int | None, is_admitted: bool | None) -> str:
    """Return an answer in words; a refused mutation is told its throttle too."""
    waits = duration(throttle_time_ms)
    return f"refused, {waits}" if is_admitted is False else waits
