from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.warehouse.storage import write_whole


def test_a_file_is_written_with_its_folder_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "report.html"
    assert write_whole(path, "before") == path
    assert write_whole(path, "größer\r\n").read_bytes() == "größer\r\n".encode()
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    report = write_whole(tmp_path / "report.html", "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(report, "half of a pair: \udc80")
    assert report.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
