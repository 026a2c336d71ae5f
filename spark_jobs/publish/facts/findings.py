"""Findings in the order in which a person should read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.publish.facts.evidence import Evidence, evidence_items
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.sensors import Sensor
from spark_jobs.warehouse.tables import SEVERITIES
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.visible_text import visible


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to act on; times in epoch ms."""

    finding_id: str
    broker_id: int | None
    quota_type: str
    quota_user: str
    quota_client_id: str
    kind: str
    severity: str
    from_ms: int
    until_ms: int
    decisions: int
    explanation: str
    evidence: Evidence
    hypothesis: str | None = None
    hypothesis_share: float | None = None
    runner_up: str | None = None
    runner_up_share: float | None = None
    estimated_bound: float | None = None

    @property
    def entity(self) -> str:
        """Return whom the finding is about, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)

    @property
    def sensor(self) -> Sensor | None:
        """Return the sensor the finding is about; None where it is about every broker."""
        if self.broker_id is None:
            return None
        return Sensor(self.broker_id, self.quota_type, self.quota_user, self.quota_client_id)


def findings_of(scope: RunScope) -> tuple[Finding, ...]:
    """Return the findings of the run, critical ones first, then those with most decisions."""
    findings = [finding_of(row) for row in read_table(scope, "findings").to_pylist()]
    findings.sort(key=lambda f: (severity_rank(f.severity), -f.decisions, f.from_ms, f.finding_id))
    return tuple(findings)


def finding_of(row: Mapping[str, Any]) -> Finding:
    """Return a row of the table ``findings`` with its texts made visible."""
    texts = {
        "explanation": visible(row["explanation"]),
        "evidence": evidence_items(row["evidence"]),
    }
    return Finding(**{**row, **texts})


def by_severity(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Return how many findings there are of each severity, the worst first."""
    counted = Counter(f.severity for f in findings)
    return {severity: counted[severity] for severity in sorted(counted, key=severity_rank)}


def severity_rank(severity: str) -> int:
    """Return where a severity stands, the worst at 0; one that nobody knows is the least."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
