"""An audit as ``quota-audit run`` does it, but for validation: it takes every stage as passed.

``python -m tests.builders.small_audit ARCHIVE WAREHOUSE [--due]``: what ``fault_runs`` harms.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_jobs.audit import run_audit
from spark_jobs.cli.ending import ending
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import put_validated


def _take_as_passed(scope: RunScope, stage: str, _spark: object) -> str:
    put_validated(stage, scope)
    return "not validated"


def main() -> None:
    run_audit.validate_stage = _take_as_passed  # type: ignore[assignment]
    options = IngestOptions.of(broker_version="3.7.2")
    archive, warehouse = Path(sys.argv[1]), Path(sys.argv[2])
    with ending():
        run_audit.run_audit(archive, warehouse, None, None, options, only_due="--due" in sys.argv)


if __name__ == "__main__":
    main()
