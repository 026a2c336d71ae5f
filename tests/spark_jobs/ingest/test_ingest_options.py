from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.ingest_options import IngestOptions, parse_versions


@pytest.mark.parametrize("text", ["four", "1=", "=4.1.0", "a=4.1.0", "1=4.1.0,,2=3.7"])
def test_a_version_that_does_not_read_so_is_named(text: str) -> None:
    with pytest.raises(BadInputError, match="--broker-version"):
        parse_versions(text)


def test_versions_are_given_for_all_brokers_or_one_by_one() -> None:
    assert parse_versions("4.1.0") == {None: "4.1.0"}
    assert parse_versions("1=3.7.2, 2=4.1.0,3.9.1") == {1: "3.7.2", 2: "4.1.0", None: "3.9.1"}


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(BadInputError, match="Mars/Olympus"):
        IngestOptions.of(timezone="Mars/Olympus")


def test_a_prefix_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(BadInputError, match="not a regular expression"):
        IngestOptions.of(prefix="(")
