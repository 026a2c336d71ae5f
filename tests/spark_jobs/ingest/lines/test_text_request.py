"""Lines of Kafka 2.0 to 2.7 hold what the JSON of later releases holds, as far as they tell it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lines.line_reader import LoggedRequest, Reason, read_request
from tests.builders.log_lines import PRODUCE, log_line, message, text_line
from tests.builders.message_sizes import request_size

TRACE = "{acks=1,timeout=30000,partitionSizes=[orders-0=1000,my-audit-1=24,orders-12=7]}"
DOWN_CONVERTED = (
    "LazyDownConversionRecords(size=90, underlying=FileRecords(size=70, file=/d/t-0/0.log, "
    "start=3, end=73), toMagic=1, firstOffset=4)"
)


def read(line: bytes) -> LoggedRequest:
    found = read_request(line)
    assert isinstance(found, LoggedRequest), found
    return found


def fetch(records: str, api_version: int = 4) -> LoggedRequest:
    header = f"apiKey=FETCH, apiVersion={api_version}, clientId=svc, correlationId=7"
    request = "{replica_id=-1,max_wait_time=9,min_bytes=1,max_bytes=52,isolation_level=0,topics=[]}"
    response = (
        "{throttle_time_ms=3,responses=[{topic=t,partition_responses=[{partition_header={"
        "partition=0,error_code=0,high_watermark=5,last_stable_offset=5,aborted_transactions=null}"
        f",record_set={records}}}]}}]}}"
    )
    return read(text_line(header, request, response))


def test_everything_outside_of_the_messages_is_read() -> None:
    found = read(text_line())
    header, line = found.line.requestHeader, found.line
    assert (header.requestApiKey, header.requestApiKeyName) == (0, "PRODUCE")
    assert (header.requestApiVersion, header.correlationId, header.clientId) == (8, 7, "svc")
    assert (line.totalTimeMs, line.requestQueueTimeMs, line.localTimeMs) == (2.181, 0.861, 0.295)
    assert (line.remoteTimeMs, line.responseQueueTimeMs, line.sendTimeMs) == (0.077, 0.901, 0.045)
    assert (line.connection, line.local_address) == (
        "127.0.0.1:9092-127.0.0.1:51744-1",
        "127.0.0.1:9092",
    )
    assert (line.principal, line.user, line.listener) == ("User:alice", "alice", "CLIENTS")
    assert line.isForwarded is False


def test_whole_milliseconds_and_javas_powers_of_ten_are_times_too() -> None:
    line = read(text_line(totalTime="1.2345678E7", localTime="12", remoteTime="0.0")).line
    assert (line.totalTimeMs, line.localTimeMs, line.remoteTimeMs) == (12345678.0, 12.0, 0.0)


def test_the_client_tells_its_software_since_2_5() -> None:
    information = ",clientInformation:ClientInformation(softwareName=kcat, softwareVersion=1.7.0)"
    client = read(text_line(tail=information)).line.clientInformation
    assert client is not None
    assert (client.softwareName, client.softwareVersion) == ("kcat", "1.7.0")
    assert read(text_line()).line.clientInformation is None


def test_memory_and_conversion_times_may_follow() -> None:
    tail = ",temporaryMemoryBytes:4096,messageConversionsTime:12.5"
    assert read(text_line(tail=tail)).line.listener == "CLIENTS"


@pytest.mark.parametrize(
    "client_id",
    ["", "a, b", "x (y)", ") -- {", "é€", ", correlationId=x", "a from connection b", ",response:"],
)
def test_a_client_id_may_hold_what_separates_the_parts(client_id: str) -> None:
    found = read(text_line(f"apiKey=PRODUCE, apiVersion=8, clientId={client_id}, correlationId=7"))
    assert found.line.requestHeader.clientId == client_id


def test_a_client_without_an_id_is_printed_as_null() -> None:
    found = read(text_line("apiKey=PRODUCE, apiVersion=8, clientId=null, correlationId=7"))
    assert found.line.requestHeader.clientId is None


@pytest.mark.parametrize(
    "principal", ["CN=a,listener:B,O=c", "x from connection y", "x from connection y;totalTime:1"]
)
def test_a_principal_may_hold_what_separates_the_parts(principal: str) -> None:
    line = read(text_line(principal=f"User:{principal}")).line
    assert (line.user, line.listener) == (principal, "CLIENTS")


def test_the_throttle_time_is_the_responses() -> None:
    assert read(text_line(throttleTime="250.5")).fields.throttle_time_ms == 17


def test_without_a_response_the_lines_own_throttle_counts_from_2_6_on() -> None:
    request = "{acks=0,timeout=30000,numPartitions=1}"
    later = read(text_line(request=request, response="", throttleTime="250"))
    assert (later.fields.throttle_time_ms, later.line.throttleTimeMs) == (None, 250)
    assert later.fields.acks == 0
    assert later.fields.error_codes is None


def test_before_2_6_a_throttle_without_a_response_is_not_in_the_log() -> None:
    request = "{acks=0,timeout=30000,numPartitions=1}"
    earlier = read(text_line(request=request, response="", throttleTime="250.5"))
    assert earlier.fields.throttle_time_ms == 0


@pytest.mark.parametrize(
    ("response", "throttle_ms"),
    [
        ("{throttle_time_ms=40,brokers=[]}", 40),
        ("{error_code=0,api_keys=[],throttle_time_ms=41,_tagged_fields={}}", 41),
        ("{error_code=0}", 0),
        ("{config={throttle_time_ms=9}}", 0),
    ],
)
def test_of_any_other_request_only_the_throttle_is_read(response: str, throttle_ms: int) -> None:
    header = "apiKey=METADATA, apiVersion=9, clientId=svc, correlationId=7"
    fields = read(text_line(header, "{topics=[]}", response)).fields
    assert (fields.throttle_time_ms, fields.request_bytes) == (throttle_ms, None)


def test_the_size_of_a_produce_is_in_the_log_at_trace_only() -> None:
    fields = read(text_line()).fields
    assert (fields.acks, fields.request_bytes, fields.topics) == (1, None, None)


def test_at_trace_a_produce_has_the_size_it_has_in_json() -> None:
    topics = [
        {
            "name": "orders",
            "partitionData": [
                {"index": 0, "recordsSizeInBytes": 1000},
                {"index": 12, "recordsSizeInBytes": 7},
            ],
        },
        {"name": "my-audit", "partitionData": [{"index": 1, "recordsSizeInBytes": 24}]},
    ]
    fields = read(text_line(request=TRACE)).fields
    assert fields.request_bytes == request_size(0, 8, "svc", PRODUCE | {"topicData": topics})
    assert fields.topics == [
        {"topic": "orders", "records_bytes": 1007},
        {"topic": "my-audit", "records_bytes": 24},
    ]


@pytest.mark.parametrize(
    ("records", "body_bytes"),
    [
        ("FileRecords(size=70, file=/d/t, 1-0/0.log, start=3, end=73)", 70),
        ("FileRecords(file= /d/t, 1-0/0.log, start=3, end=73)", 70),
        ("MemoryRecords(size=70, buffer=java.nio.HeapByteBuffer[pos=0 lim=70 cap=70])", 70),
        ("MemoryRecords(size=0, buffer=java.nio.HeapByteBuffer[pos=0 lim=0 cap=0])", 0),
        (DOWN_CONVERTED, 70),
        ("[]", 0),
        ("null", 0),
    ],
)
def test_a_fetch_has_the_size_of_its_records(records: str, body_bytes: int) -> None:
    fields = fetch(records).fields
    # 4 + throttle time, topics, name, partitions, partition, three numbers, transactions, records.
    header_bytes = 4 + 4 + 4 + (2 + 1) + 4 + (4 + 2 + 8 + 8) + 4 + 4
    assert fields.response_bytes == header_bytes + body_bytes
    assert fields.topics == [{"topic": "t", "records_bytes": body_bytes}]
    assert (fields.throttle_time_ms, fields.fetch_max_bytes, fields.error_codes) == (3, 52, [0])


@pytest.mark.parametrize(
    "records",
    [
        "[(record=DefaultRecord(offset=0, timestamp=1, key=2 bytes, value=3 bytes))]",
        "org.apache.kafka.common.record.LazyDownConversionRecords@1f2e3d",
    ],
)
def test_records_in_memory_before_2_4_have_no_size(records: str) -> None:
    fields = fetch(records).fields
    assert fields.response_bytes is None
    assert fields.topics == [{"topic": "t", "records_bytes": None}]


def test_a_mutation_is_read_under_the_names_of_every_release() -> None:
    header = "apiKey=CREATE_TOPICS, apiVersion=3, clientId=svc, correlationId=7"
    older = read(
        text_line(
            header,
            "{create_topic_requests=[{topic=a,num_partitions=4,replication_factor=1,"
            "replica_assignment=[],config_entries=[{config_name=k,config_value=v,w}]}],"
            "timeout=9,validate_only=true}",
            "{throttle_time_ms=0,topic_errors=[{topic=a,error_code=0,error_message=null}]}",
        )
    )
    newer = read(
        text_line(
            header,
            "{topics=[{name=a,num_partitions=4,replication_factor=1,assignments=[],"
            "configs=[{name=k,value=v,w}]}],timeout_ms=9,validate_only=true}",
            "{throttle_time_ms=0,topics=[{name=a,error_code=0,error_message=null}]}",
        )
    )
    assert older.fields == newer.fields
    assert older.fields.mutations == [{"topic": "a", "partitions": 4, "error_code": 0}]
    assert older.fields.validate_only is True
    assert older.fields.request_bytes is not None


def test_quota_alterations_of_2_6_are_read_with_the_users_names() -> None:
    user = "CN=a,ou=b"
    found = read(
        text_line(
            "apiKey=ALTER_CLIENT_QUOTAS, apiVersion=0, clientId=svc, correlationId=7",
            f"{{entries=[{{entity=[{{entity_type=user,entity_name={user}}},{{entity_type=client-id,"
            "entity_name=null}],ops=[{key=producer_byte_rate,value=1.0E7,remove=false},"
            "{key=consumer_byte_rate,value=0.0,remove=true}]}],validate_only=false}",
            "{throttle_time_ms=0,entries=[{error_code=0,error_message=null,entity=[{entity_type="
            f"user,entity_name={user}}},{{entity_type=client-id,entity_name=null}}]}}]}}",
        )
    )
    entity = {"quota_user": user, "quota_client_id": "<default>"}
    assert found.fields.quota_alterations == [
        {"quota_type": "producer_byte_rate", "bound": 1e7} | entity,
        {"quota_type": "consumer_byte_rate", "bound": None} | entity,
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (text_line()[:250], Reason.CUT),
        (text_line()[: text_line().index(b",listener")], Reason.CUT),
        (text_line().replace(b"RequestHeader(apiKey", b"RequestHeader(api"), Reason.CUT),
        (text_line(request="{acks=1,timeout=30000,num"), Reason.BROKEN_TEXT),
        (text_line(request="{acks=1,timeout=3,partitionSizes=[a-0=1,b]}"), Reason.BROKEN_TEXT),
        (text_line(response="{responses=[{topic=a}],throttle_time_ms=1}"), Reason.BROKEN_TEXT),
        (text_line(response="{responses=[],throttle_time_ms=1},"), Reason.BROKEN_TEXT),
        (text_line(principal="User:ali\xff").replace(b"\xc3", b""), Reason.BROKEN_TEXT),
        (text_line("apiKey=PRODUCE, apiVersion=99, clientId=a, correlationId=7"),
         Reason.BROKEN_TEXT),
        (text_line("apiKey=PRODUCES, apiVersion=8, clientId=a, correlationId=7"),
         Reason.UNEXPECTED_FIELD),
        (text_line("apiKey=PRODUCE, apiVersion=8, clientId=a, correlationId=3000000000"),
         Reason.UNEXPECTED_FIELD),
        (text_line(totalTime="9.9E9", localTime="9.9E9").replace(b"9.9E9", b"99999999999.9E9"),
         Reason.UNEXPECTED_FIELD),
        (text_line(request="{acks=99999,timeout=3,numPartitions=1}"), Reason.UNEXPECTED_FIELD),
        (text_line().replace(b"},response:{", b"}, from{"), Reason.BEFORE_2_0),
    ],
)  # fmt: skip
def test_a_text_line_that_does_not_read_has_a_reason(line: bytes, reason: Reason) -> None:
    assert read_request(line) is reason


@pytest.mark.parametrize(
    "request_text",
    [
        # 0.11; 0.10 (the header a struct, whole milliseconds); 0.8
        "RequestHeader(apiKey=FETCH, apiVersion=5, clientId=a, correlationId=7) -- {replica_id=-1} "
        "from connection 1:9092-1:5-0;totalTime:3.015000,requestQueueTime:0.1,localTime:1.0,"
        "remoteTime:0.0,throttleTime:0.5,responseQueueTime:0.1,sendTime:0.4,"
        "securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT",
        "{api_key=1,api_version=3,correlation_id=7,client_id=a} -- {replica_id=-1} from connection "
        "1:9092-1:5;totalTime:3,requestQueueTime:0,localTime:1,remoteTime:0,responseQueueTime:0,"
        "sendTime:0,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT",
        "Name: FetchRequest; Version: 0; CorrelationId: 7; ClientId: a; ReplicaId: -1 from client "
        "/1:5;totalTime:3,requestQueueTime:0,localTime:1,remoteTime:0,responseQueueTime:0,"
        "sendTime:0",
    ],
    ids=["0.11", "0.10", "0.8"],
)  # fmt: skip
def test_lines_of_releases_that_held_responses_back_are_told_apart(request_text: str) -> None:
    assert read_request(log_line(request_text)) is Reason.BEFORE_2_0


@given(cut=st.integers(0, 1000), line=st.sampled_from([text_line(), text_line(request=TRACE)]))
def test_a_cut_line_is_never_an_error(cut: int, line: bytes) -> None:
    found = read_request(line[:cut])
    assert found is None or isinstance(found, Reason | LoggedRequest)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_within_messages_is_an_error(request: str, response: str) -> None:
    found = read_request(text_line(request="{" + request, response="{" + response))
    assert isinstance(found, Reason | LoggedRequest)


def test_json_lines_never_reach_the_text_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("spark_jobs.ingest.lines.line_reader.read_text_request")
    assert isinstance(read_request(log_line(message())), LoggedRequest)
