"""Lines as Kafka's request logger writes them, for tests to bend."""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.quota.apis import API_KEYS

PRODUCE = {
    "transactionalId": None,
    "acks": 1,
    "timeoutMs": 30000,
    "topicData": [
        {"name": "orders", "partitionData": [{"index": 0, "recordsSizeInBytes": 1000}]},
        {"name": "audit", "partitionData": [{"index": 1, "recordsSizeInBytes": 24}]},
    ],
}
PRODUCED = {
    "responses": [
        {
            "name": "orders",
            "partitionResponses": [
                {
                    "index": 0,
                    "errorCode": 0,
                    "baseOffset": 5,
                    "logAppendTimeMs": -1,
                    "logStartOffset": 0,
                    "recordErrors": [],
                    "errorMessage": None,
                }
            ],
        }
    ],
    "throttleTimeMs": 17,
}


def message(
    api_name: str = "PRODUCE",
    api_version: int = 9,
    request: Any = None,
    response: Any = None,
    client_id: str | None = "svc",
    **fields: Any,
) -> dict[str, Any]:
    """Return the JSON of one request; ``fields`` replace those outside of the messages."""
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": API_KEYS[api_name],
            "requestApiVersion": api_version,
            "correlationId": 7,
            "clientId": client_id,
            "requestApiKeyName": api_name,
        },
        "request": PRODUCE if request is None else request,
        "response": PRODUCED if response is None else response,
        "connection": "127.0.0.1:9092-127.0.0.1:51744-1-1",
        "totalTimeMs": 2.181,
        "requestQueueTimeMs": 0.861,
        "localTimeMs": 0.295,
        "remoteTimeMs": 0.077,
        "throttleTimeMs": 0,
        "responseQueueTimeMs": 0.901,
        "sendTimeMs": 0.045,
        "securityProtocol": "PLAINTEXT",
        "principal": "User:alice",
        "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": "apache-kafka-java", "softwareVersion": "4.1.0"},
    } | fields


def log_line(body: dict[str, Any] | str, stamp: str = "2026-11-21 02:40:47,903") -> bytes:
    """Return one line of ``kafka.request.logger`` in Kafka's own layout, without line end."""
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return f"[{stamp}] DEBUG Completed request:{text} (kafka.request.logger)".encode()


def text_line(
    header: str = "apiKey=PRODUCE, apiVersion=8, clientId=svc, correlationId=7",
    request: str = "{acks=1,timeout=30000,numPartitions=1}",
    response: str = "{responses=[],throttle_time_ms=17}",
    tail: str = "",
    **fields: str,
) -> bytes:
    """Return one line in the text format of 2.0 to 2.7; ``fields`` replace those of its end.

    ``tail`` is what follows the listener: 2.5 and later write ``,clientInformation:…``.
    """
    ending = {
        "totalTime": "2.181",
        "requestQueueTime": "0.861",
        "localTime": "0.295",
        "remoteTime": "0.077",
        "throttleTime": "0.063",
        "responseQueueTime": "0.901",
        "sendTime": "0.045",
        "securityProtocol": "SASL_PLAINTEXT",
        "principal": "User:alice",
        "listener": "CLIENTS",
    } | fields
    text = ",".join(f"{name}:{value}" for name, value in ending.items())
    return log_line(
        f"RequestHeader({header}) -- {request},response:{response} from connection "
        f"127.0.0.1:9092-127.0.0.1:51744-1;{text}{tail}"
    )
