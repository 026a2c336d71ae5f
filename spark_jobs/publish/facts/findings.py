"""Findings in the order in which a person should read them, their evidence as names and values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.quota.codes import severity_rank
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.wording.names import NamedEntity
from spark_jobs.wording.numbers import NONE, duration, significant
from spark_jobs.wording.visible_text import shortened, visible

_LENGTH_MAX = 400
_LIST_MAX = 10

Evidence = tuple[tuple[str, str], ...]


def evidence_items(text: str) -> Evidence:
    """Return names and values in words, in the order of the JSON object ``text``.

    Text that is no JSON object is shown as it is: a person can still read it.

    >>> evidence_items('{"wrong_decisions": 1200, "difference_max_ms": 8122, "known_fault": null}')
    (('wrong decisions', '1,200'), ('difference max', '8.1 s'), ('known fault', '–'))
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return _as_it_is(text) if text else ()
    if not isinstance(document, dict):
        return _as_it_is(text)
    return tuple(item for name, value in document.items() for item in _items(name, value))


def _items(name: str, value: Any) -> Evidence:
    if not value or not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        return (_item(name, value),)
    # Each object of a list (a broker, a client) gets its own line.
    lines = [", ".join(" ".join(_item(*pair)) for pair in v.items()) for v in value[:_LIST_MAX]]
    more = len(value) - len(lines)
    shown = tuple((f"{_name(name)} {n}", text) for n, text in enumerate(lines, start=1))
    return (*shown, (_name(name), f"and {more:,} more")) if more else shown


def _as_it_is(text: str) -> Evidence:
    return (("evidence", shortened(visible(text), _LENGTH_MAX)),)


def _item(name: str, value: Any) -> tuple[str, str]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # A moment is in ms too, but no length of time in a log is three years.
    if "_ms" in name and (value is None or (is_number and abs(value) < 1e11)):
        return _name(name.replace("_ms", "", 1)), duration(value)
    return _name(name), _value(value)


def _name(name: str) -> str:
    return shortened(visible(name.replace("_", " ")))


def _value(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else significant(value, 6)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(visible(text), _LENGTH_MAX)


@dataclass(frozen=True, slots=True)
class Finding(NamedEntity):
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
    def sensor(self) -> SensorKey | None:
        """Return the sensor the finding is about; None where it is about every broker."""
        if self.broker_id is None:
            return None
        return SensorKey(self.broker_id, self.quota_type, self.quota_user, self.quota_client_id)


def finding_of(row: Mapping[str, Any]) -> Finding:
    """Return a row of the table ``findings`` with its texts made visible."""
    texts = {
        "explanation": visible(row["explanation"]),
        "evidence": evidence_items(row["evidence"]),
    }
    return Finding(**{**row, **texts})


def by_severity(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Return the number of findings of each severity, the worst first."""
    counted = Counter(f.severity for f in findings)
    return {severity: counted[severity] for severity in sorted(counted, key=severity_rank)}
