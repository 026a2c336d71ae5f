from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_jobs.check import result
from spark_jobs.check.result import audit_size

PAGE = (Path(__file__).parents[3] / "docs" / "capacity.md").read_text("utf-8")


def test_the_coefficients_are_those_of_the_page() -> None:
    def of_step(name: str) -> str:
        found = re.search(rf"^\| {name} \| ([^|]+) \|", PAGE, re.M)
        assert found, name
        return found[1]

    assert float(of_step("`ingest`")) == result.INGEST_CPU_S_PER_GB
    assert float(of_step("`replay`")) == result.REPLAY_CPU_S_PER_GB
    assert float(of_step("`recommend`")) == result.RECOMMEND_CPU_S_PER_GB
    assert float(of_step("the others")) == result.OTHERS_CPU_S_PER_GB
    validate, _, _ = of_step("`validate`, three times").partition(",")
    assert float(validate) == result.VALIDATE_CPU_S_PER_GB
    assert f"takes {result.STARTING_CPU_S:.0f} processor seconds" in PAGE
    assert f"grows by {result.WAREHOUSE_BYTES_PER_GB / 1e6:.0f} MB a GB" in PAGE


def test_an_audit_of_a_large_day_takes_what_the_page_says_a_gb() -> None:
    size = audit_size(100e9, 86.4e6, 86.4e6, 1, 4)
    assert size.cpu_s == pytest.approx(48 + 100 * 46.1)
    assert size.wall_s == (size.cpu_s / 4, size.cpu_s)
    assert size.warehouse_bytes == pytest.approx(3.7e9)


def test_each_day_starts_anew() -> None:
    size = audit_size(2e9, 1.7e6, 1.7e6, 2, 2)
    assert size.cpu_s == pytest.approx(2 * 48 + 2 * 46.1)
    assert size.days == 2


def test_of_nothing_an_audit_takes_nothing() -> None:
    assert audit_size(0.0, 0.0, 0.0, 0, 2).cpu_s == 0
