"""The page of one finding: what was found, what else was considered, and on which decisions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.dataset as ds

from quota_pages import finding_words as words
from quota_pages.page import Place, render
from quota_pages.wrong_decisions import wrong_decisions
from spark_jobs.publish.facts.change_words import changes_in_words
from spark_jobs.publish.facts.findings import Finding, finding_of
from spark_jobs.publish.facts.news import news_of
from spark_jobs.warehouse.read import read_rows
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS
from spark_jobs.wording.names import VERDICTS
from spark_jobs.wording.visible_text import shortened

_CONFIGURED = "configured_quota"
# What happened just before and after an interval is a part of its picture.
_MARGIN_MIN_MS = 60_000
_MARGIN_SHARE = 0.1
KNOWN_DAYS = 14
"""For so long a finding is acknowledged where a person does not choose another day."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One explanation that was considered, and the share of the decisions that it explains."""

    hypothesis: str
    name: str
    meaning: str
    share: float
    rank: str


def finding_page(place: Place, scope: RunScope, finding_id: str) -> str | None:
    """Return the page of a finding of the day; None where no finding has this id."""
    is_it = ds.field("finding_id") == finding_id
    rows = read_rows(scope, "findings", FINDINGS.names, is_it).to_pylist()
    if not rows:
        return None
    finding = finding_of(rows[0])
    news = news_of(scope)
    decisions, total = wrong_decisions(scope, finding)
    margin_ms = max(_MARGIN_MIN_MS, round((finding.until_ms - finding.from_ms) * _MARGIN_SHARE))
    return render(
        "finding.html.j2",
        dataclasses.replace(place, tab="audit"),
        finding=finding,
        candidates=tuple(_candidates(finding, _configured_share(rows[0]["evidence"]))),
        around_ms=(finding.from_ms - margin_ms, finding.until_ms + margin_ms),
        decisions=decisions,
        decisions_total=total,
        course=changes_in_words(news).get(finding_id),
        errors=news.errors,
        known_until=scope.day + dt.timedelta(days=KNOWN_DAYS),
        words=words,
        verdicts=VERDICTS,
        shortened=shortened,
    )


def _candidates(finding: Finding, configured_share: float | None) -> Iterator[Candidate]:
    """Yield what was considered, the best first; nothing where nothing explains them all."""
    considered = [
        ("best", finding.hypothesis, finding.hypothesis_share),
        ("next best", finding.runner_up, finding.runner_up_share),
    ]
    if _CONFIGURED not in (finding.hypothesis, finding.runner_up):
        considered.append(("what is configured", _CONFIGURED, configured_share))
    for rank, hypothesis, share in considered:
        if finding.hypothesis is not None and hypothesis is not None and share is not None:
            name, meaning = words.HYPOTHESES.get(hypothesis, (hypothesis.replace("_", " "), ""))
            yield Candidate(hypothesis, name, meaning, share, rank)


def _configured_share(evidence: str) -> float | None:
    """Return what the configured value explains; None where the evidence does not say."""
    try:
        document = json.loads(evidence)
    except json.JSONDecodeError:
        return None
    share = document.get("configured_share") if isinstance(document, dict) else None
    return float(share) if isinstance(share, (int, float)) else None
