"""The pages of a warehouse in a bucket are those of the same one in a folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from quota_pages.kept_tables import stamp_of
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import storage_path
from tests.object_storage.moto_server import ObjectStorage
from tests.plugins.quota_pages.every_address import client_of, every_address, pages_app
from tests.spark_jobs.warehouse.test_drafts import audit, day_in


@pytest.fixture(scope="module")
def warehouse(storage: ObjectStorage, bucket: str, small_day: RunScope) -> Path:
    """Return a copy of the small day's warehouse."""
    pafs.copy_files(
        str(small_day.warehouse), f"{bucket}/pages",
        source_filesystem=pafs.LocalFileSystem(), destination_filesystem=storage.client(),
    )  # fmt: skip
    return storage_path(f"s3://{bucket}/pages")


def test_every_page_and_file_is_the_same(warehouse: Path, small_day: RunScope) -> None:
    on_disk, in_bucket = pages_app(small_day.warehouse), pages_app(warehouse)
    addresses = every_address(on_disk, small_day)
    assert len(addresses) > 10
    for route, address in addresses.items():
        one, other = (client_of(app).get(address) for app in (on_disk, in_bucket))
        assert one.status_code == other.status_code, route
        assert one.text == other.text.replace(str(warehouse), str(small_day.warehouse)), route
        # A file says when it was changed; what an object store has of that is another moment.
        same = ("content-type", "content-security-policy", "content-disposition")
        assert [one.headers.get(name) for name in same] == [
            other.headers.get(name) for name in same
        ], route


@pytest.mark.parametrize("name", ["../reports/x.html", "x/../../a.html", "", "none.html"])
def test_a_page_outside_of_the_data_docs_is_none(warehouse: Path, name: str) -> None:
    (warehouse / "a.html").write_text("secret")
    assert "secret" not in client_of(pages_app(warehouse)).get(f"/data_docs/{name}").text


def test_a_table_that_was_written_again_has_another_stamp(bucket: str) -> None:
    day = day_in(storage_path(f"s3://{bucket}/stamps"))
    assert stamp_of(day.partition_dir("findings")) is None
    audit(day, 1)
    first = stamp_of(day.partition_dir("findings"))
    assert first == stamp_of(day.partition_dir("findings"))
    audit(day, 1)
    assert stamp_of(day.partition_dir("findings")) not in (None, first)


def test_the_daily_dag_s_places_may_be_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_WAREHOUSE", "s3://bucket/warehouse/")
    monkeypatch.setenv("QUOTA_AUDIT_ARCHIVE", "logs")
    settings = DailyAuditSettings()
    assert str(settings.warehouse) == "s3://bucket/warehouse"
    assert settings.archive == Path.cwd() / "logs"
    monkeypatch.setenv("QUOTA_AUDIT_WAREHOUSE", "gs://bucket/warehouse")
    with pytest.raises(ValueError, match=r"expected a folder, or s3://bucket/key"):
        DailyAuditSettings()
