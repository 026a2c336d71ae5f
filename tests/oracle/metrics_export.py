"""What brokers' metrics were when they were read, as an export of Prometheus."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping

_QUOTED = re.compile(r'^"(.*)"$')


def prometheus_export(read: Mapping[int, str]) -> str:
    """Return the JSON that ``/api/v1/query`` answers for a range of time, of lines of Server.java.

    ``read`` has a node's lines by its id. Names and labels are those that the JMX exporter makes by
    its examples/kafka-kraft-3_0_0.yml; the instance is ``broker-<id>:7071``.
    """
    series: dict[str, list[list[object]]] = defaultdict(list)
    for node_id, text in read.items():
        for line in text.splitlines():
            at_ms, name, attribute, value = line.split("\t")
            labels = _labels(name, attribute, node_id)
            series[json.dumps(labels)].append([int(at_ms) / 1000, value])
    result = [{"metric": json.loads(labels), "values": v} for labels, v in series.items()]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(answer, separators=(",", ":")) + "\n"


def _labels(name: str, attribute: str, node_id: int) -> dict[str, str]:
    fields = dict(part.split("=", 1) for part in name.partition(":")[2].split(","))
    own = {"user": fields.get("user"), "clientId": fields.get("client-id")}
    return {
        "__name__": f"kafka_server_quota_{attribute.replace('-', '_')}",
        "broker_id": str(node_id),
        "instance": f"broker-{node_id}:7071",
        "job": "kafka",
        "resource": fields["type"],
        **{label: _QUOTED.sub(r"\1", value) for label, value in own.items() if value is not None},
    }
