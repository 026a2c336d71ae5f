from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.anonymize.anonymize_file import ServerLines
from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.ingest.quota_sources.server_log import ServerLog, read_server_log

KEY = b"the key of the tests, 32 bytes.."
NAMES = Pseudonyms(KEY)
AT = "[2026-11-21 03:26:45,230] "
LOGGER = " (kafka.server.ClientQuotaManager)"


def copied(lines: Sequence[str]) -> list[str]:
    copy = ServerLines(Pseudonyms(KEY), KEY)
    return [copy.line(line) for line in lines]


def read(lines: Iterable[str]) -> ServerLog:
    return read_server_log(lines, 1, "f", dt.UTC)


def name(text: str | None) -> str | None:
    return None if text is None else NAMES.name(text, Kind.TOPIC)


def renamed(log: ServerLog) -> dict[str, Any]:
    found = asdict(log)
    for event in found["quota_events"]:
        event["quota_user"] = name(event["quota_user"])
        event["quota_client_id"] = name(event["quota_client_id"])
    for record in found["throttles"]:
        record["user"], record["client_id"] = name(record["user"]), name(record["client_id"])
    return found | {"starts": [replace(start, evidence="") for start in log.starts]}


def told(log: ServerLog) -> dict[str, Any]:
    return asdict(log) | {"starts": [replace(start, evidence="") for start in log.starts]}


LINES = [
    AT + "INFO Changing PRODUCE quota for user alice client-id svc to 180000.0" + LOGGER,
    AT + "INFO Changing REQUEST quota for user CN%3Dalice%2CO%3DMy+Org to 0.8" + LOGGER,
    AT + "INFO Changing FETCH quota for default user client-id a to b to 1.0E7" + LOGGER,
    AT + "INFO Removing CONTROLLER_MUTATION quota for client-id svc (me)" + LOGGER,
    AT + "INFO Removing PRODUCE quota for default user default client-id" + LOGGER,
    AT + "INFO Changing PRODUCE quota for group secret to 5" + LOGGER,
    AT + "DEBUG Quota violated for sensor (Produce-dave%3A1:sink:x). Delay time: (8)" + LOGGER,
    AT + "DEBUG Quota violated for sensor (Fetch-:sink). Delay time: (8)" + LOGGER,
    AT + "INFO Updating max connection rate override for /10.0.0.7 to 5" + LOGGER,
    AT + "INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)",
    "java.lang.Exception: secret of host-7",
    "\tat secret.Code.run(Code.java)",
    AT + "WARN Connection to node 7 (host-7/10.0.0.7:9092) failed: secret",
    AT + "INFO [KafkaServer id=1] started (kafka.server.KafkaServer)",
    AT + "INFO [BrokerServer id=1] Transition from SHUTTING_DOWN to SHUTDOWN",
    "[2026-11-21 03:36:45,230] INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)",
    "[2026-11-21 03:37:45,230] INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)",
]


def test_a_copied_server_log_tells_the_same_line_by_line() -> None:
    original, copy = read(LINES), read(copied(LINES))
    assert told(copy) == renamed(original)
    assert (len(copy.quota_events), len(copy.throttles), len(copy.starts)) == (5, 2, 3)
    assert copy.unread_lines
    assert copy.out_of_scope_lines


def test_nothing_else_of_a_server_log_is_copied() -> None:
    text = "\n".join(copied(LINES))
    for word in ("secret", "host-7", "10.0.0.7", "alice", "svc", "sink", "dave", "node", "Org"):
        assert word not in text
    assert copied(LINES)[10:13] == ["", "", AT.strip()]


def test_a_user_has_the_pseudonym_that_it_has_in_requests() -> None:
    (line,) = copied([LINES[1]])
    assert quote(NAMES.name("CN=alice,O=My Org", Kind.PRINCIPAL), safe="") in line


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20),
    st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20),
)
@pytest.mark.parametrize("bound", ["180000.0", "1.0E7", "0.8"])
def test_any_name_is_read_as_its_pseudonym(bound: str, user: str, client_id: str) -> None:
    lines = [
        f"{AT}INFO Changing PRODUCE quota for user {quote(user, safe='')} client-id {client_id} "
        f"to {bound}{LOGGER}",
        f"{AT}DEBUG Quota violated for sensor (Fetch-{quote(user, safe='')}:{client_id}). "
        f"Delay time: (8){LOGGER}",
    ]
    assert told(read(copied(lines))) == renamed(read(lines))
