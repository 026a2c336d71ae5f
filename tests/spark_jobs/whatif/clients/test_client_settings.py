from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.whatif.clients.scenario import DEFAULT_SETTINGS, read_client_settings


def test_what_is_not_said_has_kafkas_default() -> None:
    assert read_client_settings("s.toml", {}) == DEFAULT_SETTINGS
    found = read_client_settings("s.toml", {"retries": 3, "linger.ms": 0, "fills.batches": False})
    assert (found.retries, found.linger_ms, found.fills_batches) == (3, 0, False)
    assert (found.retry_backoff_ms, found.delivery_timeout_ms) == (100, 120_000)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (3, "s.toml: found 3 for clients"),
        ({"retries": -1}, r"int` >= 0 - at `\$.retries`. The keys are retries, retry.backoff.ms"),
        ({"retries": True}, "Expected `int`, got `bool`"),
        ({"linger.ms": "5"}, "Expected `int`, got `str`"),
        ({"retries": 2**31}, "<= 2147483647"),
        ({"retry_backoff_ms": 5}, "unknown field `retry_backoff_ms`"),
    ],
)
def test_what_no_client_can_be_set_to_is_refused(found: object, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_client_settings("s.toml", found)
