"""Lines that are made to keep a reader busy are read as quickly as others of their length.

Each repeats what a pattern looks for. Where a place of the line were read again for every place
before it, a line of this length would take minutes, and the time limit would end the test.
"""

from __future__ import annotations

import pytest

from spark_jobs.ingest.lines.line_reader import Reason, read_request
from spark_jobs.ingest.lines.text_request import LoggedRequest
from tests.builders.log_lines import log_line, message, text_line

READ = LoggedRequest
TIMES = 20_000
BEGIN = b"[2026-11-21 02:40:47,903] DEBUG Completed request:RequestHeader("
METADATA = "apiKey=METADATA, apiVersion=8, clientId=svc, correlationId=7"
CLIENT = ",clientInformation:ClientInformation(softwareName=a, softwareVersion=b"
UNDERLYING = "LazyDownConversionRecords(size=1, underlying=MemoryRecords(size=1)"
PARTITION = (
    "{partition_header={partition=0,error_code=0,high_watermark=1,last_stable_offset=1,"
    "log_start_offset=0,aborted_transactions=null},record_set="
)
FETCHED = f"{{throttle_time_ms=0,responses=[{{topic=a,partition_responses=[{PARTITION}"
ASKED = (
    "{replica_id=-1,max_wait_time=500,min_bytes=1,max_bytes=5,isolation_level=0,topics=[]}"
)  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("line", "found"),
    [
        (BEGIN + b" from connection " * TIMES, Reason.CUT),
        (BEGIN + b" from connection a;totalTime:1,requestQueueTime:1," * TIMES, Reason.BEFORE_2_0),
        (BEGIN + b"apiKey=FETCH, clientId=" + b", correlationId=1" * TIMES, Reason.CUT),
        (text_line() + b",listener:x" * TIMES + b",", READ),
        (text_line() + f",listener:x{CLIENT}".encode() * TIMES + b",", READ),
        (text_line() + CLIENT.encode() + b", softwareVersion=b)" * TIMES, READ),
        (text_line(listener="x" * TIMES + ","), Reason.CUT),
        (text_line(request=f"{{acks=1,timeout=1,partitionSizes=[{'a-1' * TIMES}]}}"), Reason),
        (text_line(request=f"{{acks=1,timeout=1,partitionSizes=[{'a-1=1,' * TIMES}]}}"), READ),
        (text_line(METADATA, "{}", "{a" + ",throttle_time_ms=1,_tagged_fields={" * TIMES), READ),
        (text_line(METADATA, "{}", "{a" + ",throttle_time_ms=1" * TIMES), READ),
        (text_line("apiKey=FETCH, apiVersion=4, clientId=svc, correlationId=7", ASKED,
                   FETCHED + UNDERLYING * TIMES), Reason),
        (text_line(request="{" * TIMES), Reason),
        (log_line(message()).replace(b'"acks":1', b'"acks":1' + b',"acks":1' * TIMES), READ),
        (log_line(message()).replace(b'"acks":1', b'"acks":' + b"1" * 200_000), Reason),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_line_made_to_be_slow_is_not(line: bytes, found: type | Reason) -> None:
    read = read_request(line)
    assert isinstance(read, found) if isinstance(found, type) else read is found
