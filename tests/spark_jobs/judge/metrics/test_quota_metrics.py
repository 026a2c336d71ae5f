from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.judge.metrics.quota_metrics import (
    MetricSeries,
    QuotaSeries,
    quota_series,
    sanitized,
)
from spark_jobs.quota.sensor_key import SensorKey

QUOTA = "kafka_server_quota_byte_rate"


def series(name: str, **labels: str) -> MetricSeries:
    labels = {label.replace("__", "-"): value for label, value in labels.items()}
    return MetricSeries({"__name__": name, **labels}, np.array([1500]), np.array([1.0]))


def named(*given: MetricSeries, instances: dict[str, int] | None = None) -> list[QuotaSeries]:
    return quota_series(given, "it", instances or {}, [1, 2])[0]


@pytest.mark.parametrize(
    "one",
    [
        # The exporter's examples for Kafka, in the cases of the label that are in use.
        series(QUOTA, resource="Fetch", user="bob", clientId="etl", broker="2"),
        series(QUOTA, type="Fetch", user="bob", client_id="etl", broker="2"),
        # Of kafka-2_0_0.yml the rule for client-ids matches first.
        series(QUOTA, resource="Fetch, user=bob", clientId="etl", broker="2"),
        # Its default naming, with and without lowercaseOutputName.
        series("kafka_server_fetch_byte_rate", user="bob", client_id="etl", broker_id="2"),
        series("kafka_server_Fetch_byte_rate", user="bob", client__id="etl", kafka_id="2"),
        # Names that an ObjectName had to quote.
        series("kafka_server_fetch_byte_rate", user='"bob"', client_id='"etl"', pod="my-kafka-2"),
    ],
)  # fmt: skip
def test_the_usual_names_of_the_jmx_exporter_are_known(one: MetricSeries) -> None:
    (found,) = named(one)
    key = SensorKey(2, "consumer_byte_rate", "bob", "etl")
    assert found.metric == "byte-rate"
    assert found.is_of(key)
    assert not found.is_of(SensorKey(1, "consumer_byte_rate", "bob", "etl"))
    assert not found.is_of(SensorKey(2, "consumer_byte_rate", "bob", ""))


def test_a_user_is_encoded_as_brokers_encode_it_or_plain() -> None:
    key = SensorKey(1, "producer_byte_rate", "CN=app,O=shop", "")
    for user in ("CN%3Dapp%2CO%3Dshop", "CN=app,O=shop"):
        (found,) = named(series("kafka_server_produce_byte_rate", user=user, broker="1"))
        assert found.is_of(key)
    assert sanitized("a b*~") == "a%20b%2A%7E"


def test_an_instance_that_was_named_wins_over_labels() -> None:
    one = series("kafka_server_produce_throttle_time", instance="kafka-b:7071", broker="1")
    (found,) = named(one, instances={"kafka-b:7071": 2})
    assert (found.broker_id, found.metric) == (2, "throttle-time")


def test_the_only_broker_of_an_audit_need_not_be_named() -> None:
    one = series("kafka_server_produce_byte_rate", instance="localhost:7071")
    found, others = quota_series([one], "it", {}, [7])
    assert (found[0].broker_id, others) == (7, 0)


def test_a_broker_that_nothing_tells_is_asked_for() -> None:
    with pytest.raises(BadInputError, match=r"which broker is .*--broker 1=kafka-b:7071"):
        named(series("kafka_server_produce_byte_rate", instance="kafka-b:7071"))


def test_other_metrics_of_quotas_are_counted_and_left_out() -> None:
    given = [
        series("kafka_server_produce_byte_rate", broker="1"),
        series("kafka_server_quota_request_time", resource="Request", broker="1"),
        series("kafka_server_request_throttle_time", broker="1"),
        series("kafka_server_controllermutation_tokens", broker="1"),
        series("kafka_server_brokertopicmetrics_bytesin_total", broker="1"),
    ]
    found, others = quota_series(given, "it", {}, [1])
    assert (len(found), others) == (1, 4)


def test_names_that_have_the_client_in_them_are_refused_with_where_the_rules_are() -> None:
    """As kafka-kraft-3_0_0.yml makes them: a broader rule comes first in it."""
    with pytest.raises(BadInputError, match=r"client_id_etl_byte_rate\. .*docs/crosscheck\.md"):
        named(series("kafka_server_produce_user_alice_client_id_etl_byte_rate", broker="1"))


def test_an_export_without_a_metric_of_quotas_is_refused_with_what_it_has() -> None:
    with pytest.raises(BadInputError) as refused:
        named(series("up", instance="a"), series("node_load1"))
    assert "found up, node_load1. Expected kafka_server_quota_byte_rate" in str(refused.value)
