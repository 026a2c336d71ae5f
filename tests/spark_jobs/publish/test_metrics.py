from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spark_jobs.publish import audit_outcome
from spark_jobs.publish.audit_outcome import metrics_text
from spark_jobs.publish.publish_report import metrics_path, publish_report
from spark_jobs.publish.read_facts import gather
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import HOSTILE, busy_day, empty_day
from tests.builders.followed_days import write_days
from tests.builders.tables_builder import DAY, row, scope_in, write_day, write_rows

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Return what Prometheus' own parser reads."""
    return {
        (sample.name, frozenset(sample.labels.items()) - {("cluster", "default")}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(found: Samples, name: str, **labels: str) -> float:
    return found[f"quota_audit_{name}", frozenset(labels.items())]


def test_a_busy_day_in_numbers(tmp_path: Path) -> None:
    facts = gather(busy_day(tmp_path))
    found = samples(metrics_text(facts))
    verdicts = facts.verdicts
    assert named(found, "decisions", verdict="agree") == verdicts.agree > 0
    ratio = verdicts.agree / (verdicts.agree + verdicts.wrong)
    assert named(found, "agreement_ratio") == pytest.approx(ratio)
    new = sum(named(found, "problems", severity=s, status="new") for s in ("critical", "warning"))
    assert new >= 1
    total = sum(value for (name, _), value in found.items() if name.endswith("throttle_seconds"))
    assert total == pytest.approx(sum(one.throttle_time_ms for one in facts.throttled) / 1000)
    assert total > 0


def test_a_day_without_decisions_has_no_agreement(tmp_path: Path) -> None:
    found = samples(metrics_text(gather(empty_day(tmp_path))))
    assert not [name for name, _ in found if name == "quota_audit_agreement_ratio"]
    assert named(found, "data_quality", outcome="not validated") == 1


def test_what_is_acknowledged_is_counted_apart(tmp_path: Path) -> None:
    scopes = write_days(tmp_path)
    text = metrics_text(gather(scopes[3])).replace('cluster="prod"', 'cluster="default"')
    found = samples(text)
    assert named(found, "problems", severity="warning", status="acknowledged") == 1
    assert named(found, "problems", severity="warning", status="still_there") == 2


def test_names_of_strangers_are_labels_and_nothing_else(tmp_path: Path) -> None:
    facts = gather(busy_day(tmp_path, user=HOSTILE))
    found = samples(metrics_text(facts))
    users = {dict(labels).get("user") for _, labels in found} - {None}
    assert users
    assert all(user.isprintable() for user in users if user)


def test_more_entities_than_are_kept_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = gather(busy_day(tmp_path))
    (one, *_) = facts.throttled
    many = tuple(
        dataclasses.replace(
            one,
            use=dataclasses.replace(one.use, sensor=one.sensor._replace(quota_user=f"u{n}")),
            throttle_time_ms=1000 * (n + 1),
        )
        for n in range(5)
    )
    monkeypatch.setattr(audit_outcome, "ENTITIES_MAX", 2)
    found = samples(metrics_text(dataclasses.replace(facts, throttled=many)))
    seconds = {
        dict(labels)["user"]: value
        for (name, labels), value in found.items()
        if name == "quota_audit_throttle_seconds"
    }
    assert seconds == {"u4": 5, "u3": 4, "other": 6}


def test_the_last_day_is_where_prometheus_is_told_of(tmp_path: Path) -> None:
    earlier = RunScope(tmp_path, "default", DAY.replace(day=DAY.day - 1))
    write_day(earlier)
    last = write_day(scope_in(tmp_path))
    publish_report(last)
    of_last = metrics_path(tmp_path, "default").read_text("utf-8")
    publish_report(earlier)
    assert metrics_path(tmp_path, "default").read_text("utf-8") == of_last
    own = (earlier.output_dir("reports") / "metrics.prom").read_text("utf-8")
    assert own != of_last


def test_a_day_without_tables_has_its_metrics_too(tmp_path: Path) -> None:
    publish_report(empty_day(tmp_path))
    assert metrics_path(tmp_path, "default").is_file()


def test_an_audit_publishes_its_findings_for_programs(tmp_path: Path) -> None:
    scope = write_day(scope_in(tmp_path))
    write_rows(scope, "findings", [row("findings")])
    publish_report(scope)
    assert (
        len((scope.output_dir("reports") / "findings.jsonl").read_text("utf-8").splitlines()) == 1
    )
