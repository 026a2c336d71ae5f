from __future__ import annotations

import itertools

import pytest

from spark_jobs.warehouse.pipeline import ARCHIVE, AUDIT_STAGES, STAGES, STEPS, WRITES
from spark_jobs.warehouse.tables import TABLES

BESIDE = {"whatif", "applied_changes"}
"""Tables that no step of an audit writes."""


def test_every_table_is_written_by_one_step() -> None:
    written = [table for step in STEPS.values() for table in step.writes]
    assert sorted(written) == sorted({*TABLES, "reports"} - BESIDE)
    assert set(itertools.chain(*WRITES.values())) == {*TABLES, "reports"}


def test_what_is_read_is_there_before_or_is_the_day_before_s() -> None:
    there = {ARCHIVE, "quota_state", "topic_inventory", "demand", *BESIDE}
    for step in STEPS.values():
        assert set(step.reads) <= there, step.task_id
        there |= set(step.writes)


def test_every_table_is_checked_once() -> None:
    assert sorted(itertools.chain(*STAGES.values())) == sorted(TABLES)


@pytest.mark.parametrize("stage", AUDIT_STAGES)
def test_a_validation_checks_what_was_written_since_the_one_before(stage: str) -> None:
    steps = list(STEPS.values())
    end = next(i for i, step in enumerate(steps) if step.stage == stage)
    begin = max((i + 1 for i in range(end) if steps[i].stage), default=0)
    written = [table for step in steps[begin:end] for table in step.writes]
    assert steps[end].reads == tuple(written)
    assert steps[end].task_id == f"validate_{stage}"
