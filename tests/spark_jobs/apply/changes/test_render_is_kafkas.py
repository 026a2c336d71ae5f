"""Kafka's own code reads what is rendered: the tool's, the request's and the controller's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.apply.changes.kafka_rules import kafkas_reason
from spark_jobs.apply.changes.quota_alteration import (
    QuotaAlteration,
    QuotaSet,
    QuotaValue,
    altered,
    quota_set,
)
from spark_jobs.apply.render import render
from tests.oracle.jars import run_java
from tests.oracle.kafka_libs import kafka_libs
from tests.oracle.logging_file import logging_file
from tests.spark_jobs.apply.changes.fixed_alterations import (
    ALTERATIONS,
    IN_FORCE,
    PRODUCER,
    VALUES,
    alteration,
)
from tests.spark_jobs.apply.changes.quota_models import request_of
from tests.spark_jobs.apply.changes.script_calls import calls_of, recording_tool

pytestmark = pytest.mark.jvm

PROGRAM = Path(__file__).parent / "QuotaController.java"
VERSION = "4.1.0"
LARGEST = 2.0**63
Command = dict[str, Any]
Answer = tuple[list[str], QuotaSet]
# Of the fixed quotas, what Kafka accepts: a cluster cannot be given a value of 0 to begin with.
SETTABLE = [v for v in IN_FORCE if v.value > 0]
FIRST: Command = {"request": request_of(quota_set(SETTABLE))}
REFUSED_BY_KAFKA = [a for a in VALUES[:-1] if kafkas_reason(a)]
TO_DELETE = alteration(after=None)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Answer]]:
    """Return what Kafka's code says to the commands of each test, all from one start of a JVM."""
    missing = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not on PATH: Kafka's own classes cannot run")
    libs = kafka_libs(VERSION, logging_file(VERSION).pom)
    tool = recording_tool(tmp_path_factory.mktemp("tool"))
    commands = {
        "request": request_commands(),
        "script": script_commands(tool),
        "refused": [
            {"request": request_of(quotas)} for quotas in map(refused_quota, REFUSED_BY_KAFKA)
        ],
        "largest": [{"request": request_of({("alice", None): {PRODUCER: LARGEST}})}],
        "delete": [
            {"arguments": c} for c in calls_of(render("kafka-configs", [TO_DELETE], ()).text, tool)
        ],
        "rpk": rpk_commands(),
    }
    lines = [json.dumps(c) for some in commands.values() for c in [{"forget": True}, *some]]
    jars = sorted(libs.glob("*.jar"))
    said = iter(run_java(PROGRAM, jars, stdin="\n".join(lines)).splitlines())
    found = {}
    for name, some in commands.items():
        assert answer(next(said)) == ([], {})
        found[name] = [answer(next(said)) for _ in some]
    assert next(said, None) is None
    return found


def answer(line: str) -> Answer:
    """Return what was refused, and all quotas after it."""
    parsed = json.loads(line)
    values = (QuotaValue(t, user, client_id, v) for user, client_id, t, v in parsed["quotas"])
    return parsed["errors"], quota_set(values)


def request_commands() -> list[Command]:
    rendered = render("admin-json", ALTERATIONS, SETTABLE)
    return [FIRST, *({"request": json.loads(t)} for t in (rendered.text, rendered.rollback))]


def script_commands(tool: Path) -> list[Command]:
    rendered = render("kafka-configs", ALTERATIONS, SETTABLE)
    calls = [calls_of(text, tool) for text in (rendered.text, rendered.rollback)]
    assert [len(c) for c in calls] == [len(ALTERATIONS) - len(rendered.refusals)] * 2
    return [FIRST, *({"arguments": call} for some in calls for call in some)]


def refused_quota(refused: QuotaAlteration) -> QuotaSet:
    bad = refused.before if refused.before == 0 else refused.after
    assert bad is not None
    return {refused.entity: {refused.quota_type: bad}}


def rpk_commands() -> list[Command]:
    """Return what ``rpk cluster quotas import`` sends: all deleted and set, in one request."""
    sets = request_of(quota_set(SETTABLE))["entries"]
    deletes = [{**e, "ops": [{**op, "remove": True} for op in e["ops"]]} for e in sets]
    return [FIRST, {"request": {"entries": [*deletes, *sets], "validateOnly": False}}]


def before_and_after() -> tuple[QuotaSet, QuotaSet]:
    before = quota_set(SETTABLE)
    refused = [r.alteration for r in render("admin-json", ALTERATIONS, SETTABLE).refusals]
    after = altered(before, [a for a in ALTERATIONS if a not in refused])
    assert before != after
    return before, after


def test_the_admin_api_takes_the_request_and_its_rollback(answers: dict[str, list[Answer]]) -> None:
    before, after = before_and_after()
    assert answers["request"] == [([], before), ([], after), ([], before)]


def test_kafka_configs_takes_every_call_and_the_rollback(answers: dict[str, list[Answer]]) -> None:
    before, after = before_and_after()
    found = answers["script"]
    assert [errors for errors, _ in found if errors] == []
    assert found[len(found) // 2][1] == after
    assert found[-1][1] == before


def test_what_is_refused_in_kafkas_name_kafka_refuses(answers: dict[str, list[Answer]]) -> None:
    assert len(REFUSED_BY_KAFKA) >= 5
    for refused, (errors, left) in zip(REFUSED_BY_KAFKA, answers["refused"], strict=True):
        assert len(errors) == 1, refused
        assert left == {}


def test_the_largest_value_that_is_not_refused_kafka_takes(
    answers: dict[str, list[Answer]],
) -> None:
    assert kafkas_reason(alteration(after=LARGEST)) is None
    assert kafkas_reason(alteration(after=LARGEST * 2)) is not None
    assert answers["largest"] == [([], {("alice", None): {PRODUCER: LARGEST}})]


def test_the_tool_refuses_to_delete_what_is_not_set(answers: dict[str, list[Answer]]) -> None:
    ((errors, _),) = answers["delete"]
    # The words that the script takes for success.
    assert "Invalid config(s)" in errors[0]
    assert "Invalid config(s)" in render("kafka-configs", [TO_DELETE], ()).text


def test_an_import_by_rpk_would_empty_a_cluster_of_apache_kafka(
    answers: dict[str, list[Answer]],
) -> None:
    _, (errors, left) = answers["rpk"]
    assert left == {}
    assert {error.partition(" ")[0] for error in errors} == {"Ignoring"}
