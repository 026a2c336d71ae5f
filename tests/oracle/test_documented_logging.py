"""The logging files that the documentation shows, on brokers that log by them."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app as cli
from tests.docs.pages import ROOT, Block, blocks
from tests.oracle.broker_logs import BrokerLogs, as_archive, broker_logs

PAGE = ROOT / "docs" / "onboarding.md"
FILES = ROOT / "examples" / "logging"
MARK = "Completed request:"

needs_brokers = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("mvn", "java")),
    reason="mvn or java is not on PATH: no Kafka broker can be started",
)


def shown(text: str) -> Block:
    """Return the page's only block that has a text."""
    (found,) = (block for block in blocks(PAGE) if text in block.text and block.language != "bash")
    return found


def requests_in(log: Path) -> int:
    return log.read_text().count(MARK)


def checked(archive: Path) -> str:
    """Return what ``check`` says of an archive that can be audited."""
    result = CliRunner().invoke(cli.app, ["check", str(archive)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("name", "text"),
    [("log4j2.yaml", "RollingFile:"), ("log4j.properties", "DailyRollingFileAppender")],
)
def test_the_page_shows_the_file_that_is_run(name: str, text: str) -> None:
    assert shown(text).text == (FILES / name).read_text()


def test_the_config_map_holds_the_file_that_is_run() -> None:
    held = shown("kind: ConfigMap").text.partition("log4j2.properties: |\n")[2]
    assert textwrap.dedent(held) == (FILES / "strimzi-log4j2.properties").read_text()


@pytest.mark.broker
@needs_brokers
@pytest.mark.parametrize(
    ("kafka_version", "name"),
    [("4.1.0", "log4j2.yaml"), ("3.9.1", "log4j.properties"), ("2.8.2", "log4j.properties")],
)
def test_a_broker_that_logs_as_shown_can_be_audited(
    tmp_path: Path, kafka_version: str, name: str
) -> None:
    logs = broker_logs(kafka_version, FILES / name, tmp_path / "lab")
    requests, server = logs.folder / "kafka-request.log", logs.folder / "server.log"
    assert requests_in(requests) > 20
    assert requests_in(server) == requests_in(logs.printed) == 0
    assert "Quota violated for sensor" in server.read_text()
    said = checked(as_archive(tmp_path / "archive", kafka_version, requests, server))
    assert "JSON (Kafka 2.8 and later), at DEBUG" in said


@pytest.mark.broker
@needs_brokers
def test_a_broker_that_logs_to_standard_output_can_be_audited(tmp_path: Path) -> None:
    logs: BrokerLogs = broker_logs("4.1.0", FILES / "strimzi-log4j2.properties", tmp_path / "lab")
    assert requests_in(logs.printed) > 20
    checked(as_archive(tmp_path / "archive", "4.1.0", logs.printed))
