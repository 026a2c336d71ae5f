"""The recommender's settings in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.recommend.recommend_quotas import read_settings


def test_a_file_says_what_it_says_and_the_rest_is_default(tmp_path: Path) -> None:
    path = tmp_path / "recommend.toml"
    path.write_text(
        "raise_only = true\nheadroom = 1.5\n[broker_capacity]\nproducer_byte_rate = 5e7\n", "utf-8"
    )
    found = read_settings(path)
    assert (found.raise_only, found.headroom, found.max_raise) == (True, 1.5, 4.0)
    assert found.broker_capacity == {"producer_byte_rate": 5e7}
    assert not read_settings(None).raise_only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("headrom = 1.5", r"headrom: Extra inputs are not permitted\. The keys are min_req"),
        ("headroom = 0.5", r"headroom = 0\.5: Input should be greater than 1"),
        ("max_lower = 'half'", "max_lower = 'half': Input should be a valid number"),
        ("raise_only = [", "this is no TOML"),
    ],
)
def test_what_it_cannot_mean_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recommend.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInputError, match=message):
        read_settings(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone\.toml: No such file"):
        read_settings(tmp_path / "gone.toml")
