from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from spark_jobs.cli.print_agreement import instance_brokers
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import find_archive, ignored_files
from spark_jobs.judge.crosscheck_metrics import read_exports
from tests.oracle.metrics_export import prometheus_export

LINES = """1795386916014\tkafka.server:type=Produce,user=alice,client-id=etl\tbyte-rate\t12.5
1795386916514\tkafka.server:type=Produce,user=alice,client-id=etl\tbyte-rate\tNaN
"""


def export() -> str:
    """Return one series of broker 3."""
    return prometheus_export({3: LINES})


def test_an_export_is_read_plain_and_packed(tmp_path: Path) -> None:
    packed = {
        "plain.json": export().encode(),
        "one.json.gz": gzip.compress(export().encode()),
        "two.json.zst": zstandard.compress(export().encode()),
    }
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
        (found,), others = read_exports([tmp_path / name], {}, [1, 2, 3])
        assert (found.broker_id, found.user, found.client_id) == (3, "alice", "etl")
        assert found.samples.at_ms.tolist() == [1795386916014, 1795386916514]
        assert others == 0


@pytest.mark.parametrize("name", ["cut.json.gz", "cut.json.zst"])
def test_an_export_that_was_cut_off_is_named(tmp_path: Path, name: str) -> None:
    data = export().encode()
    whole = gzip.compress(data) if name.endswith("gz") else zstandard.compress(data)
    (tmp_path / name).write_bytes(whole[:-9])
    with pytest.raises(BadInputError, match=rf"{name} cannot be unpacked: "):
        read_exports([tmp_path / name], {}, [3])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone\.json is gone"):
        read_exports([tmp_path / "gone.json"], {}, [3])


def test_exports_beside_the_logs_are_of_the_archive(tmp_path: Path) -> None:
    log = tmp_path / "broker=1" / "kafka-request.log"
    log.parent.mkdir()
    log.write_text("x\n")
    names = ["broker-metrics-2026-11-21.json", "broker-metrics.json.gz", "other.json"]
    for name in names:
        (tmp_path / name).write_text(json.dumps({}))
    found = find_archive(tmp_path, "default")
    assert [path.name for path in found.metrics] == names[:2]
    assert ignored_files(tmp_path, "default") == ["other.json"]


def test_an_instance_is_named_by_its_broker() -> None:
    assert instance_brokers(["1=a:7071", "20=b:7071"]) == {"a:7071": 1, "b:7071": 20}


@pytest.mark.parametrize("option", ["a:7071=1", "1", "1=", "=a"])
def test_a_broker_option_of_another_form_is_refused(option: str) -> None:
    with pytest.raises(BadInputError, match="is not of the form <broker id>=<instance>"):
        instance_brokers([option])
