from __future__ import annotations

import datetime as dt

import pytest

from quota_dags.steps import DailyAudit, asset_uri, report_lineage
from spark_jobs.warehouse.pipeline import STEPS


class Collector:
    """Stands for Airflow's: keeps the addresses of what was read and written."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def add_input_asset(self, context: object, uri: str) -> None:
        self.inputs.append(uri)

    def add_output_asset(self, context: object, uri: str) -> None:
        self.outputs.append(uri)


def lineage(task_id: str, archive: str = "/logs", warehouse: str = "/wh") -> Collector:
    found = Collector()
    audit = DailyAudit(archive, warehouse, "east", dt.date(2026, 11, 20), "UTC", None)
    report_lineage(task_id, audit, found)
    return found


def test_a_dataset_is_a_folder_s_address_whatever_it_is_called() -> None:
    found = lineage("ingest_requests", archive="/logs of ours")
    assert found.inputs == ["file:///logs%20of%20ours"]
    assert found.outputs[0] == "file:///wh/requests"
    found = lineage("resolve_quotas", warehouse="s3://bucket/wh")
    assert found.outputs == ["s3://bucket/wh/quota_changes"]


def test_an_asset_has_one_address_whatever_the_warehouse() -> None:
    assert asset_uri("reports") == "x-quota-audit://warehouse/reports"


def test_a_validation_writes_nothing_that_others_read() -> None:
    assert lineage("validate_judged").outputs == []


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
def test_airflow_s_collector_takes_what_a_step_reports() -> None:
    from airflow.sdk.lineage import HookLineageCollector, get_hook_lineage_collector

    audit = DailyAudit("/logs", "/wh", "east", dt.date(2026, 11, 20), "UTC", None)
    collector = HookLineageCollector()
    report_lineage("judge_decisions", audit, collector)
    found = collector.collected_assets
    assert [one.asset.uri for one in found.outputs] == [
        "file:///wh/findings", "file:///wh/rate_rollups",
    ]  # fmt: skip
    assert len(found.inputs) == len(STEPS["judge_decisions"].reads)
    # Nothing reads it here, as the provider is not installed: what is reported is dropped.
    report_lineage("judge_decisions", audit, get_hook_lineage_collector())
    assert not get_hook_lineage_collector().has_collected
