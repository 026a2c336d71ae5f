"""A copied line is read as what the line was read as; nothing else of it is there."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark_jobs.anonymize.message_names import KEPT_WORDS
from spark_jobs.anonymize.pseudonyms import Pseudonyms
from spark_jobs.anonymize.request_lines import RequestLines
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.ingest.lines.envelope import JOINED_BYTES_MAX
from spark_jobs.ingest.lines.line_reader import Reason
from tests.builders.line_mutations import bent_lines, real_lines
from tests.builders.log_lines import log_line, message
from tests.spark_jobs.anonymize.renamed import Renamed

KEY = b"the key of the tests, 32 bytes.."
GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = sorted(GOLDEN.rglob("kafka-request.log*"))
STAMP = b"[2026-11-21 02:40:47,903] DEBUG "
CRI = b"2026-11-21T03:26:45.23Z "


def copied(lines: Sequence[bytes], prefix: str | None = None) -> list[bytes]:
    pattern = re.compile(prefix.encode()) if prefix else None
    copy = RequestLines(Pseudonyms(KEY), KEY, dt.UTC, pattern)
    return [copy.line(line) for line in lines]


def read(lines: Sequence[bytes], prefix: str | None = None) -> dict[str, Any]:
    """Return what an ingest reads of a file of these lines."""
    data = b"".join(line + b"\n" for line in lines)
    options = LogOptions("UTC", prefix, {})
    found, _ = parse_chunk(data, LineSource("f", 1, 1), options, ChunkState(), is_last=True)
    return {
        "lines": (found.lines_read, found.other),
        "requests": found.requests.to_pylist(),
        "quarantine": [
            (row["source_line"], row["reason"], row["log_time_ms"])
            for row in found.quarantine.to_pylist()
        ],
    }


def expected_of(lines: Sequence[bytes], prefix: str | None = None) -> dict[str, Any]:
    """Return what has to be read of the copy of ``lines``."""
    found, renamed = read(lines, prefix), Renamed(KEY, {"f": "f"})
    names = renamed.names
    rows = [renamed.row(row) for row in found["requests"]]
    for row in rows:
        if not re.fullmatch("[A-Z_]{1,60}", row["api_name"]):
            row["api_name"] = names.text(row["api_name"])
        for altered in row["quota_alterations"] or ():
            if altered["quota_type"] not in KEPT_WORDS:
                altered["quota_type"] = names.text(altered["quota_type"])
    return found | {"requests": rows}


@pytest.mark.parametrize("log", LOGS, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_lines_of_real_brokers_give_the_same_rows(log: Path) -> None:
    data = log.read_bytes()
    lines = (gzip.decompress(data) if log.suffix == ".gz" else data).split(b"\n")[:-1]
    found = read(copied(lines))
    assert found == expected_of(lines)
    assert len(found["requests"]) > 10


@pytest.mark.parametrize("seed", range(3))
def test_lines_bent_in_any_way_are_read_as_they_were(seed: int) -> None:
    bent = [each.line for each in bent_lines(Random(seed), 1_500, real_lines())]
    lines = b"\n".join(bent).split(b"\n")
    found = read(copied(lines))
    assert found == expected_of(lines)
    assert len({reason for _, reason, _ in found["quarantine"]}) > 4


UNREAD = {
    Reason.FOREIGN: b"Exception in thread main: my secret",
    Reason.BAD_TIME: b"[2026-02-30 00:00:00,000] DEBUG Completed request:{my secret}",
    Reason.CUT: STAMP + b'Completed request:{"my secret',
    Reason.INTERLEAVED: STAMP + b"Completed request:{}Completed request:{my secret}",
    Reason.BROKEN_JSON: STAMP + b"Completed request:{my secret}",
    Reason.UNEXPECTED_FIELD: STAMP + b'Completed request:{"requestHeader":"my secret"}',
    Reason.BROKEN_TEXT: STAMP
    + b"Completed request:RequestHeader(apiKey=PRODUCE, apiVersion=7, clientId=a, correlationId=1) "
    b"-- {my secret},response:{} from connection 10.0.0.1:1-10.0.0.2:2-0;totalTime:1.0,"
    b"requestQueueTime:1.0,localTime:1.0,remoteTime:1.0,throttleTime:1.0,responseQueueTime:1.0,"
    b"sendTime:1.0,securityProtocol:PLAINTEXT,principal:User:x,listener:PLAINTEXT",
    Reason.BEFORE_2_0: STAMP + b"Completed request:Name: FetchRequest; my secret",
    Reason.TOO_LONG: STAMP + b"my secret" * (JOINED_BYTES_MAX // 9 + 1),
}


@pytest.mark.parametrize("reason", UNREAD, ids=str)
def test_a_line_that_does_not_read_becomes_one_that_does_not_for_the_same_reason(
    reason: Reason,
) -> None:
    (line,) = copied([UNREAD[reason]])
    ((number, found, at_ms),) = read([UNREAD[reason]])["quarantine"]
    assert found == reason
    assert read([line])["quarantine"] == [(number, found, at_ms)]
    assert b"secret" not in line


def test_every_reason_of_a_line_itself_is_tried() -> None:
    assert UNREAD.keys() == set(Reason) - {Reason.UNKNOWN_BROKER, Reason.FUTURE}


def test_lines_that_were_set_aside_stay_different() -> None:
    """Files of the same lines count once; different ones must not become that."""
    for line in UNREAD.values():
        if b"my secret}" in line and b"Completed" in line and b"02-30" not in line:
            one, other, again = copied([line, line.replace(b"my", b"no"), line])
            assert one == again != other


def test_other_loggers_and_stack_traces_leave_only_stamps() -> None:
    lines = [STAMP + b"Took a nap at host-7 (kafka.Nap)", b"java.lang.Oops: secret", b"\tat a.b(C)"]
    assert copied(lines) == [b"[2026-11-21 02:40:47,903]", b"", b""]
    assert read(copied(lines)) == read(lines)


@pytest.mark.parametrize("streams", [(b"stdout", b"stdout"), (b"stdout", b"stderr")])
def test_a_line_in_parts_stays_one_and_one_without_an_end_too(
    streams: tuple[bytes, bytes],
) -> None:
    begin, end = log_line(message()).split(b"partitionData", 1)
    one, other = streams
    lines = [
        CRI + one + b" P " + begin,
        CRI + other + b" F partitionData" + end,
        CRI + one + b" F partitionData" + end,
        CRI + one + b" P " + begin,
    ]
    found = read(copied(lines))
    assert found == expected_of(lines)
    assert b"orders" not in b"".join(copied(lines))


def test_a_line_with_a_shippers_prefix_is_copied_without_it() -> None:
    lines = [b"<13>host-7 kafka: " + log_line(message())]
    prefix = r"<\d+>\S+ kafka: "
    assert read(copied(lines, prefix)) == expected_of(lines, prefix)
    assert copied(lines, prefix)[0].startswith(b"[2026")


def test_only_listed_fields_are_there() -> None:
    """Fields Kafka does not have, messages that no quota weighs, messages of errors, payloads."""
    request = {
        "acks": 1, "timeoutMs": 1, "transactionalId": "my-secret-tx", "mine": "secret",
        "topicData": [
            {"name": "secret-topic", "partitionData": [
                {"index": 0, "recordsSizeInBytes": 10, "payload": "secret"}]}
        ],
    }  # fmt: skip
    response = {
        "responses": [
            {"name": "secret-topic", "partitionResponses": [
                {"index": 0, "errorCode": 0, "baseOffset": 1, "logAppendTimeMs": -1,
                 "logStartOffset": 0, "errorMessage": "secret of mine",
                 "recordErrors": [{"batchIndex": 0, "batchIndexErrorMessage": "secret"}]}]}
        ],
        "throttleTimeMs": 3,
    }  # fmt: skip
    lines = [
        log_line(message(request=request, response=response, mine="secret")),
        log_line(message("METADATA", 9, {"topics": [{"name": "secret"}]}, {"clusterId": "secret"})),
    ]
    assert [row["api_name"] for row in read(lines)["requests"]] == ["PRODUCE", "METADATA"]
    assert read(copied(lines)) == expected_of(lines)
    assert b"secret" not in b"".join(copied(lines))


@pytest.mark.parametrize(
    "records",
    [
        "FileRecords(file= /var/secret/orders-0/0.log, start=0, end=70)",
        "MemoryRecords(size=70, buffer=java.nio.HeapByteBuffer[pos=0 lim=70 cap=70])",
        "[(record=DefaultRecord(offset=0, key=6 bytes secret, value=6 bytes secret))]",
        "null",
    ],
)
@pytest.mark.parametrize("client_id", ["null", "a, correlationId=7", "x,listener:secret", "größe"])
def test_the_text_format_leaves_sizes_of_records_only(records: str, client_id: str) -> None:
    lines = [
        (
            STAMP.decode() + "Completed request:RequestHeader(apiKey=FETCH, apiVersion=4, "
            f"clientId={client_id}, correlationId=1) -- {{replica_id=-1,max_wait_time=500,"
            "min_bytes=1,max_bytes=52428800,isolation_level=0,topics=[{topic=secret-topic,"
            "partitions=[{partition=0,fetch_offset=0,partition_max_bytes=1048576}]}]},response:"
            "{throttle_time_ms=9,responses=[{topic=secret-topic,partition_responses=["
            "{partition_header={partition=0,error_code=0,high_watermark=1,last_stable_offset=1,"
            f"aborted_transactions=null}},record_set={records}}}]}}]}} "
            "from connection 10.9.8.7:9092-10.1.1.1:5000-3;totalTime:1.5,requestQueueTime:0.25,"
            "localTime:1.0,remoteTime:0.0,throttleTime:9.125,responseQueueTime:0.001,"
            "sendTime:0.125,securityProtocol:SASL_SSL,principal:User:CN=secret,O=Secret,"
            "listener:SECRET,clientInformation:ClientInformation(softwareName=apache-kafka-java, "
            "softwareVersion=2.4.0),temporaryMemoryBytes:0"
        ).encode()
    ]
    assert len(read(lines)["requests"]) == 1
    assert read(copied(lines)) == expected_of(lines)
    assert not re.search(rb"secret|10\.9\.8\.7", b"".join(copied(lines)), re.IGNORECASE)
