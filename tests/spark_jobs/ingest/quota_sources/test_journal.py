from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.journal import NOTED_WITHIN_MS, read_journal
from spark_jobs.quota.codes import DEFAULT

NOTED_MS = 1_795_229_264_942
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"


def read(arguments: str) -> list[QuotaEvent]:
    return read_journal(f"# notes\n\n{NOTED_MS} {arguments}\n", "quota_changes.txt")


@pytest.mark.parametrize(
    ("arguments", "entity"),
    [
        ("--entity-type users --entity-name alice", ("alice", None)),
        ("--entity-type clients --entity-name 'my app'", (None, "my app")),
        (
            "--entity-type users --entity-name bob --entity-type clients --entity-name etl",
            ("bob", "etl"),
        ),
        (
            "--entity-type clients --entity-default --entity-type users --entity-name bob",
            ("bob", DEFAULT),
        ),
        ("--entity-type clients --entity-default", (None, DEFAULT)),
        ("--user alice --client-defaults", ("alice", DEFAULT)),
        ("--bootstrap-server b:9092 --alter --user-defaults --client x", (DEFAULT, "x")),
    ],
)
def test_entities_are_named_as_for_the_tool(
    arguments: str, entity: tuple[str | None, str | None]
) -> None:
    (event,) = read(f"{arguments} --add-config producer_byte_rate=400000")
    assert (event.entity, event.bound) == (entity, 400_000.0)


def test_a_change_took_effect_around_the_noted_time() -> None:
    (event,) = read("--user alice --add-config producer_byte_rate=1")
    assert (event.earliest_ms, event.latest_ms) == (
        NOTED_MS - NOTED_WITHIN_MS,
        NOTED_MS + NOTED_WITHIN_MS,
    )
    assert event.earliest_ms < event.likely_ms < NOTED_MS
    assert (event.source, event.source_file, event.source_line) == (
        "journal",
        "quota_changes.txt",
        3,
    )


def test_one_line_may_set_and_remove_several_quotas() -> None:
    events = read(
        "--user alice --add-config producer_byte_rate=1,SCRAM-SHA-256=[iterations=8192,password=p],"
        "consumer_byte_rate=2.5 --delete-config request_percentage,SCRAM-SHA-512"
    )
    assert [(e.quota_type, e.bound) for e in events] == [
        ("request_percentage", None),
        (PRODUCE, 1.0),
        (FETCH, 2.5),
    ]


def test_lines_about_other_things_change_no_quota() -> None:
    assert read("--entity-type topics --entity-name t --add-config retention.ms=1") == []
    assert read("--entity-type ips --entity-default --add-config connection_creation_rate=1") == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "yesterday --user alice --add-config producer_byte_rate=1",
            "found a text of 56 characters",
        ),
        (f"{NOTED_MS}", "found a text of 13 characters"),
        ("hunter2", "found a text of 7 characters"),
        (f"{NOTED_MS} --user alice --add-config hunter2", "a text of 7 characters in --add-config"),
        (f"{NOTED_MS} --user alice --alter=hunter2", "ignored explicit argument …"),
        (f"{NOTED_MS} --user alice hunter2 --paswd=hunter2", "unrecognized arguments: --paswd."),
        (f"{NOTED_MS} --user alice", "neither --add-config nor --delete-config"),
        (f"{NOTED_MS} --add-config producer_byte_rate=1", "found no entity"),
        (f"{NOTED_MS} --entity-type users --add-config producer_byte_rate=1", "the name None"),
        (f"{NOTED_MS} --entity-type shoes --entity-name x --add-config a=1", "shoes"),
        (f"{NOTED_MS} --user alice --add-config producer_byte_rate=x", "'x'"),
        (f"{NOTED_MS} --user alice --add-config producer_byte_rate", "producer_byte_rate=''"),
        (f"{NOTED_MS} --user alice --add-confg a=1", "--add-confg"),
        (f"{NOTED_MS} --user 'alice --add-config a=1", "closing quotation"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, found: str) -> None:
    with pytest.raises(BadInputError) as raised:
        read_journal(f"\n{line}\n", "quota_changes.txt")
    message = str(raised.value)
    assert message.startswith("quota_changes.txt, line 2: ")
    assert found in message
    assert "xpected" in message
    assert "hunter2" not in message
