"""The proof of a copy: its audit decides, finds and scores what the archive's does."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.anonymize.anonymize_archive import CopyOptions, anonymize_archive
from spark_jobs.anonymize.message_names import KEPT_WORDS
from spark_jobs.anonymize.pseudonyms import KEPT_LISTENERS, KEPT_NAMES, KEPT_SOFTWARE
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.publish.publish_report import publish_run
from spark_jobs.recommend.recommend_quotas import read_settings, recommend_quotas
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.score.score_capture import ScoreRequest, score_capture
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.spark_jobs.anonymize.renamed import NOT_COMPARED, Renamed

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]
KEY = b"the key of the tests, 32 bytes.."
CAPTURES = {
    "example": ROOT / "examples" / "capture",
    "kafka-3.3.2": ROOT / "tests" / "golden" / "captures" / "kafka-3.3.2",
    "kafka-3.7.2": ROOT / "tests" / "golden" / "captures" / "kafka-3.7.2",
}
TABLES = (
    "requests", "quarantine", "files", "brokers", "quota_events", "log_gaps", "throttle_records",
    "quota_changes", "located_changes", "decisions", "agreement", "rates", "quota_state",
    "topic_inventory", "rate_rollups", "demand",
)  # fmt: skip
SENTENCES = {
    "findings": ("explanation", "evidence"),
    "broker_starts": ("evidence",),
    "recommendations": ("reason", "evidence"),
}


@dataclass(frozen=True)
class Both:
    archive: RunScope
    copy: RunScope
    renamed: Renamed
    archive_folder: Path
    copy_folder: Path


@pytest.fixture(scope="module", params=CAPTURES)
def both(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Both:
    """An archive and its copy, audited."""
    folder = tmp_path_factory.mktemp("anonymized")
    archive, copy = CAPTURES[request.param], folder / "copy"
    copied = anonymize_archive(archive, copy, KEY, CopyOptions())
    return Both(
        audited(spark, archive, folder / "a"),
        audited(spark, copy, folder / "b"),
        Renamed(KEY, copied.copies),
        archive,
        copy,
    )


def audited(spark: SparkSession, archive: Path, warehouse: Path) -> RunScope:
    found = find_archive(archive, "default")
    report = ingest_requests(spark, found, warehouse, None, IngestOptions.of())
    scope = RunScope(warehouse, "default", report.days[0])
    resolve_quotas(scope)
    replay_quotas(spark, scope)
    judge_decisions(lambda: spark, scope)
    recommend_quotas(scope, read_settings(None))
    return scope


def compared(row: dict[str, Any], *others: str) -> dict[str, Any]:
    return {c: value for c, value in row.items() if c not in NOT_COMPARED and c not in others}


def test_every_row_of_the_copys_audit_is_the_archives_under_pseudonyms(both: Both) -> None:
    for table in TABLES:
        rows = read_table(both.archive, table).to_pylist()
        # As text: the tokens of a bucket that is not known are NaN, which equals nothing.
        expected = sorted(repr(both.renamed.row(row)) for row in rows)
        found = sorted(repr(compared(row)) for row in read_table(both.copy, table).to_pylist())
        assert found == expected, table
    assert read_table(both.archive, "decisions").num_rows > 100


def test_what_is_said_is_said_of_the_same_clients(both: Both) -> None:
    for table in ("requests", "decisions", "quota_changes"):
        for row in read_table(both.archive, table).to_pylist():
            both.renamed.row(row)
    for table, texts in SENTENCES.items():
        left_aside = (*texts, "finding_id")
        expected, found = [], []
        for row in read_table(both.archive, table).to_pylist():
            said = {text: row[text] for text in texts}
            expected.append(compared(both.renamed.row(row), *left_aside) | said)
        for row in read_table(both.copy, table).to_pylist():
            said = {text: both.renamed.text_of_archive(row[text] or "") for text in texts}
            found.append(compared(row, *left_aside) | said)
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), table


def test_the_copy_scores_as_the_archive_does(both: Both) -> None:
    def score(folder: Path, scope: RunScope) -> dict[str, Any]:
        options = IngestOptions.of()
        found = score_capture(ScoreRequest(folder, options, warehouse=scope.warehouse))
        return {name: value for name, value in found.items() if name != "sensors"}

    expected = score(both.archive_folder, both.archive)
    assert score(both.copy_folder, both.copy) == expected
    assert expected["produce_decisions"] > 0


def names_of(scope: RunScope) -> set[str]:
    """Return all names that an audit's tables hold, but for those that Kafka gives a meaning."""
    rows = read_table(scope, "requests").to_pylist()
    names: set[str | None] = set()
    for row in rows:
        names |= {row["user"], row["client_id"]}
        names |= set(re.findall(r"([^-]+):\d+", row["connection"]))
        topics = [*(row["topics"] or ()), *(row["mutations"] or ())]
        names |= {topic["topic"] for topic in topics}
        for altered in row["quota_alterations"] or ():
            names |= {altered["quota_user"], altered["quota_client_id"]}
    for table in ("quota_events", "throttle_records"):
        for row in read_table(scope, table).to_pylist():
            names |= {row["quota_user"], row["quota_client_id"]}
    ids_of_kafka = {name for name in names if name and name.startswith("A" * 20)}
    return {name for name in names if name} - KEPT_NAMES - ids_of_kafka


def texts_of(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder hold, unpacked, and their paths."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    texts = {
        path.relative_to(folder).as_posix(): gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in files
    }
    return texts | {"paths": "\n".join(texts).encode()}


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each)


def raw_strings(folder: Path) -> set[str]:
    """Return every text that a value of the archive's JSON is, of all messages there are."""
    strings: set[str] = set()
    for path, text in texts_of(folder).items():
        for line in text.split(b"\n") if "kafka-request.log" in path else ():
            found = line[line.find(b"{") : line.rfind(b"}") + 1]
            strings |= set(strings_in(json.loads(found))) if found else set()
    return strings


def test_no_name_is_left_in_any_byte_of_the_copy(both: Both) -> None:
    names = {name for name in names_of(both.archive) if len(name.encode()) >= 4}
    assert len(names) > 10
    for path, text in texts_of(both.copy_folder).items():
        # A word of Kafka's own line, and what a client of the captures is called.
        said = text.replace(b"Quota violated for sensor (", b"")
        assert {name for name in names if name.encode() in said} == set(), path


def test_what_is_published_of_the_copy_is_under_pseudonyms(both: Both) -> None:
    names = {name for name in names_of(both.archive) if len(name.encode()) >= 4}

    def named(scope: RunScope) -> set[str]:
        publish_run(scope)
        published = texts_of(scope.output_dir("reports"))
        assert {"report.html", "findings.jsonl", "metrics.prom"} <= set(published)
        words = set(re.findall(r"[\w.-]+", "\n".join(map(bytes.decode, published.values()))))
        return names & words - {"sensor"}  # a client of the captures is called as sensors are

    assert len(named(both.archive)) >= 3
    assert named(both.copy) == set()


def test_no_text_of_any_message_is_left_but_words_of_kafkas_own(both: Both) -> None:
    strings = {text for text in raw_strings(both.archive_folder) if len(text) >= 4}
    assert len(strings) > 100
    left = set()
    for text in texts_of(both.copy_folder).values():
        left |= set(re.findall(r'[^"\s,;()\[\]{}]+', text.decode())) & strings
    usual = KEPT_NAMES | KEPT_LISTENERS | KEPT_SOFTWARE | KEPT_WORDS | {"user", "client-id"}
    left = {t for t in left - usual if not re.fullmatch(r"[A-Z_]+|[\d.]+|A{20,}.{1,2}", t)}
    assert left - {"User:ANONYMOUS", "sensor"} == set()
