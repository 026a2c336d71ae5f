"""The table of Kafka's requests and the quotas that count them, made from Kafka's own jars.

``python -m tests.oracle.api_table`` writes it to where ``spark_jobs.quota.apis`` reads it. What a
handler asks differs by version only where a request was renamed, dropped, or handed on to the
controller: the table holds all of it together.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from tests.oracle.jars import maven_jar, run_java
from tests.oracle.jvm_quota import client_jars

PROGRAM = Path(__file__).parent / "java" / "ApiTable.java"
TABLE = Path(__file__).parents[2] / "spark_jobs" / "quota" / "apis.json"
CLIENTS = ("2.2.2", "2.7.2")
"""Of these only the names are asked: two requests were renamed after them."""
BROKERS = ("2.8.2", "3.3.2", "3.7.2", "3.9.1", "4.1.0", "4.2.2", "4.3.1", "4.4.0")
"""Oldest first; the last one is the newest release that is known."""
_THROTTLE_TIME = re.compile(r'"name":\s*"ThrottleTimeMs",[^}]*?"versions":\s*"(\d+)')
_API_KEY = re.compile(r'"apiKey":\s*(\d+)')


def api_rows(kafka_version: str) -> list[dict[str, Any]]:
    """Return what the jars of one version say of each request, in the order of their keys."""
    jars = [*client_jars(kafka_version), maven_jar("org.ow2.asm:asm:9.8")]
    if kafka_version in BROKERS:
        jars.append(maven_jar(f"org.apache.kafka:kafka_2.13:{kafka_version}"))
    told_since = _throttle_times(jars[0])
    rows = []
    for line in run_java(PROGRAM, jars).splitlines():
        key, name, newest, is_cluster_action, broker, controller = line.split("\t")
        does = {"broker": _words(broker), "controller": _words(controller)}
        strict = [w for words in does.values() for w in words if w.startswith("strict:")]
        rows.append(
            {
                "key": int(key),
                "names": [name],
                "newest_version": int(newest),
                "is_cluster_action": is_cluster_action == "true",
                **{side: sorted(set(words) - set(strict)) for side, words in does.items()},
                "strict_since": int(strict[0].removeprefix("strict:")) if strict else None,
                "throttle_time_since": told_since.get(int(key)),
            }
        )
    return rows


def _words(text: str) -> list[str]:
    return text.split(",") if text else []


def _throttle_times(clients_jar: Path) -> dict[int, int]:
    """Return the first version of each response that says the throttle time, by api key."""
    found = {}
    with zipfile.ZipFile(clients_jar) as jar:
        for entry in jar.namelist():
            if entry.startswith("common/message/") and entry.endswith("Response.json"):
                text = jar.read(entry).decode()
                since, key = _THROTTLE_TIME.search(text), _API_KEY.search(text)
                if since and key:
                    found[int(key[1])] = int(since[1])
    return found


def api_table() -> list[dict[str, Any]]:
    """Return the rows of all versions as one row for each request."""
    table: dict[int, dict[str, Any]] = {}
    for version in (*CLIENTS, *BROKERS):
        for row in api_rows(version):
            table[row["key"]] = together(table.get(row["key"], row), row)
    return [table[key] for key in sorted(table)]


def together(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """Return what two versions say of one request, the name of the newer one last."""
    names = [name for name in older["names"] if name not in newer["names"]]
    return newer | {
        "names": names + newer["names"],
        "newest_version": max(older["newest_version"], newer["newest_version"]),
        **{side: sorted({*older[side], *newer[side]}) for side in ("broker", "controller")},
        **{
            since: older[since] if newer[since] is None else newer[since]
            for since in ("strict_since", "throttle_time_since")
        },
    }


def main() -> None:
    """Write the table, a request a line."""
    lines = ",\n".join(json.dumps(row) for row in api_table())
    TABLE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
