"""An archive of made JSON request logs: produces and fetches of busy brokers, throttled soundly.

The lines are a captured produce and a captured fetch of Kafka 4.1.0 with other values. Every
broker serves REQUESTS_PER_SECOND, so more megabytes are more seconds. What a produce weighs on the
wire is told by its template, so the logged throttles are those of Kafka's rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.busy_log import EXAMPLE
from benchmarks.made_traffic import PLENTY, START_MS, BrokerRows, Traffic, broker_rows
from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.log_stream import line_blocks
from tests.builders.message_sizes import request_size

BROKERS, CLIENTS, THROTTLED = 4, 400, 8
REQUESTS_PER_SECOND = 500
ROWS_AT_ONCE = 100_000
# A record batch of 16 kB to 2 MB has a length of three bytes in a produce: all weigh as much more.
BYTES_MIN = 16_384
RESPONSE_QUEUE_US, LINE_LAG_US = 20, 30

_STAMP_CHARS = len("[2026-11-21 02:40:27,064]")
_FIRST_SECOND = "2026-11-10 10:00:00"
_NOBODY = "User:ANONYMOUS"
_VALUE = re.compile(
    r'"(correlationId|clientId|topicId|recordsSizeInBytes|baseOffset|fetchOffset|highWatermark'
    r"|throttleTimeMs|connection|totalTimeMs|requestQueueTimeMs|localTimeMs|remoteTimeMs"
    r'|responseQueueTimeMs|sendTimeMs|principal)":("[^"]*"|[\d.]+)'
)


@dataclass(frozen=True, slots=True)
class Template:
    """A line with ``%s`` for its values, which are those of ``names``, in their order."""

    text: str
    names: tuple[str, ...]

    def lines(self, columns: dict[str, list[Any]]) -> Iterator[str]:
        """Return a line for each place of the columns."""
        values = zip(*(columns[name] for name in self.names), strict=True)
        return map(self.text.__mod__, values)


@dataclass(frozen=True, slots=True)
class MadeLogs:
    """What was written: bytes of the logs, requests, and bytes of records in them."""

    log_bytes: int
    requests: int
    record_bytes: int


def write_logs(folder: Path, megabytes: float) -> MadeLogs:
    """Write an archive of about so many megabytes, on all cores."""
    templates = {name: template_of(name) for name in ("PRODUCE", "FETCH")}
    traffic = traffic_of(megabytes, templates)
    rows = [broker_rows(traffic, broker_id) for broker_id in range(BROKERS)]
    tasks = list(zip(range(1, BROKERS + 1), rows, _correlation_ids(rows), strict=True))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        write = partial(_write_log, folder, traffic, templates)
        log_bytes = sum(pool.map(write, *zip(*tasks, strict=True)))
    (folder / "kafka-version.txt").write_text("4.1.0\n")
    (folder / "quota-snapshot.json").write_text(json.dumps(_quotas(traffic)))
    record_bytes = sum(int(each.size.sum()) for each in rows)
    return MadeLogs(log_bytes, sum(map(len, rows)), record_bytes)


def traffic_of(megabytes: float, templates: dict[str, Template]) -> Traffic:
    """Return as many requests as fill the megabytes, and what a produce weighs beyond its batch."""
    few = Traffic(2 * BROKERS * 1000, BROKERS, CLIENTS, THROTTLED, bytes_min=BYTES_MIN)
    rows = next(broker_rows(few, 0).parts(1000))[1]
    lines = list(lines_of(rows, np.arange(1000), 1, few, templates))
    requests = int(megabytes * 1e6 / np.mean([len(line) for line in lines]))
    place = int(np.flatnonzero(rows.is_produce)[0])
    said = json.loads(lines[place][lines[place].index("{") : lines[place].rindex("}") + 1])
    header = said["requestHeader"]
    whole = request_size(0, header["requestApiVersion"], header["clientId"], said["request"])
    assert whole is not None
    return replace(
        few,
        requests=requests,
        span_ms=requests * 1000 // (BROKERS * REQUESTS_PER_SECOND),
        overhead_bytes=whole - int(rows.size[place]),
    )


def _correlation_ids(brokers: list[BrokerRows]) -> list[np.ndarray]:
    """Return the correlation ids of each broker's requests: a client counts over all brokers."""
    client = np.concatenate([rows.client for rows in brokers])
    recorded_ms = np.concatenate([rows.recorded_ms for rows in brokers])
    order = np.lexsort((recorded_ms, client))
    sent = np.bincount(client)
    counted = np.empty(len(client), np.int64)
    counted[order] = np.arange(len(client)) - np.repeat(np.cumsum(sent) - sent, sent)
    return np.split(counted, np.cumsum([len(rows) for rows in brokers])[:-1])


def template_of(api_name: str) -> Template:
    """Return the first captured line of the request by an authenticated client, with one size."""
    for log in find_archive(EXAMPLE, "default").request_logs:
        for line in b"".join(line_blocks(log.path)).decode().splitlines():
            if (
                f'"requestApiKeyName":"{api_name}"' in line
                and line.count("recordsSizeInBytes") == 1
                and _NOBODY not in line
                and '"acks":1' not in line
            ):
                return _opened(line)
    raise ValueError(f"{EXAMPLE} has no {api_name} of an authenticated client")


def _opened(line: str) -> Template:
    names = ["stamp"]

    def hole(found: re.Match[str]) -> str:
        names.append(found[1])
        return f'"{found[1]}":"%s"' if found[2].startswith('"') else f'"{found[1]}":%s'

    return Template("[%s]" + _VALUE.sub(hole, line[_STAMP_CHARS:]) + "\n", tuple(names))


def _write_log(
    folder: Path,
    traffic: Traffic,
    templates: dict[str, Template],
    broker_id: int,
    rows: BrokerRows,
    correlation_id: np.ndarray,
) -> int:
    """Write one broker's log; return its bytes."""
    place = folder / f"broker={broker_id}"
    place.mkdir(parents=True)
    path = place / "kafka-request.log"
    with path.open("w", encoding="utf-8") as log:
        for first, part in rows.parts(ROWS_AT_ONCE):
            ids = correlation_id[first : first + len(part)]
            log.writelines(lines_of(part, ids, broker_id, traffic, templates))
    return path.stat().st_size


def lines_of(
    rows: BrokerRows,
    correlation_id: np.ndarray,
    broker_id: int,
    traffic: Traffic,
    templates: dict[str, Template],
) -> Iterator[str]:
    """Yield the lines of requests in their order."""
    of_api = {
        name: templates[name].lines(_columns(rows, correlation_id, broker_id, traffic, chosen))
        for name, chosen in (("PRODUCE", rows.is_produce), ("FETCH", ~rows.is_produce))
    }
    for is_produce in rows.is_produce.tolist():
        yield next(of_api["PRODUCE" if is_produce else "FETCH"])


def _columns(
    rows: BrokerRows,
    correlation_id: np.ndarray,
    broker_id: int,
    traffic: Traffic,
    chosen: np.ndarray,
) -> dict[str, list[Any]]:
    """Return the values of the chosen lines; the phases end when the line's stamp says."""
    rng = np.random.default_rng([broker_id, int(rows.written_ms[0]) % 1_000_003])
    client, written_ms = rows.client[chosen], rows.written_ms[chosen]
    n = len(client)
    handler_us, queue_us = rng.integers(80, 900, n), rng.integers(5, 90, n)
    waited_us = rng.integers(500, 2_000, n)
    send_us = 1000 * (written_ms - rows.recorded_ms[chosen]) + rng.integers(50, 150, n)
    total_us = queue_us + handler_us + waited_us + RESPONSE_QUEUE_US + send_us
    topic = rng.integers(0, 200, n)
    offset = rng.integers(0, 1 << 20, n).tolist()
    peers = [
        f"10.0.0.{broker_id}:9092-10.9.{c % 250}.{c // 250}:{40_000 + c}-{c % 8}-{c}"
        for c in range(traffic.clients)
    ]
    return {
        "stamp": _stamps(written_ms),
        "correlationId": correlation_id[chosen].tolist(),
        "clientId": _named(traffic.client_ids, client),
        "topicId": _named([f"oJF0FzbeTFa9da2Fu{t:05d}" for t in range(200)], topic),
        "recordsSizeInBytes": rows.size[chosen].tolist(),
        "baseOffset": offset,
        "fetchOffset": offset,
        "highWatermark": offset,
        "throttleTimeMs": rows.throttle_ms[chosen].tolist(),
        "connection": _named(peers, client),
        "totalTimeMs": _ms(total_us),
        "requestQueueTimeMs": _ms(queue_us),
        "localTimeMs": _ms(handler_us),
        "remoteTimeMs": _ms(waited_us),
        "responseQueueTimeMs": _ms(np.full(n, RESPONSE_QUEUE_US)),
        "sendTimeMs": _ms(send_us),
        "principal": _named([f"User:{user}" for user in traffic.users], client),
    }


def _named(names: list[str], codes: np.ndarray) -> list[str]:
    return [names[code] for code in codes.tolist()]


def _ms(us: np.ndarray) -> list[float]:
    return np.round(us / 1000, 3).tolist()


def _stamps(at_ms: np.ndarray) -> list[str]:
    first = np.datetime64(_FIRST_SECOND, "ms")
    texts = np.datetime_as_string(first + (at_ms - START_MS))
    return [text.replace("T", " ").replace(".", ",") for text in texts.tolist()]


def _quotas(traffic: Traffic) -> list[dict[str, Any]]:
    everyone = {
        "entity": {"user": None, "client-id": None},
        "values": {"producer_byte_rate": PLENTY, "consumer_byte_rate": PLENTY},
    }
    return [
        everyone,
        *(
            {
                "entity": {"user": traffic.users[c], "client-id": traffic.client_ids[c]},
                "values": {"producer_byte_rate": traffic.bound(c)},
            }
            for c in traffic.throttled
        ),
    ]
