"""What validation found of a run, and where its lines went, read from its files and tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.publish.facts.quality import LinesOfFile, QuarantineReason, StageQuality
from spark_jobs.warehouse.pipeline import AUDIT_STAGES
from spark_jobs.warehouse.read import read_batches, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.visible_text import visible

SAMPLES_MAX = 3
_SAMPLE_LENGTH_MAX = 200


def stages_of(scope: RunScope) -> tuple[StageQuality, ...]:
    """Return the results of validation at each stage."""
    return tuple(stage_of(scope, stage) for stage in AUDIT_STAGES)


def stage_of(scope: RunScope, stage: str) -> StageQuality:
    """Return the results of validation at ``stage``; ``outcome`` tells if they cannot be read."""
    path = scope.output_dir("data_quality") / f"{stage}.json"
    if not path.is_file():
        return StageQuality(stage)
    try:
        return msgspec.json.decode(path.read_bytes(), type=StageQuality)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The report still helps; whoever reads it must know that this part is missing.
        return StageQuality(stage, outcome=f"not readable: {path.name}")


def data_docs_of(scope: RunScope) -> tuple[tuple[str, str], ...]:
    """Return each stage that has Data Docs, with their address as seen from the report."""
    folder = scope.output_dir("data_docs")
    found = [(stage, folder / stage / "index.html") for stage in AUDIT_STAGES]
    return tuple(
        (stage, f"../../../{quote(page.relative_to(scope.warehouse).as_posix())}")
        for stage, page in found
        if page.is_file()
    )


def lines_of_files(scope: RunScope) -> tuple[LinesOfFile, ...]:
    """Return the counts of each file's lines by where they went, files in order of their name."""
    names = [f.name for f in fields(LinesOfFile)]
    rows = read_table(scope, "files", names).sort_by("source_file").to_pylist()
    # A day ingested before duplicates were counted has no number of them.
    return tuple(LinesOfFile(**row | {"duplicated": row["duplicated"] or 0}) for row in rows)


def quarantine_reasons(scope: RunScope) -> tuple[QuarantineReason, ...]:
    """Return the reasons why lines could not be read, the most frequent first."""
    lines: Counter[str] = Counter()
    first: dict[str, list[dict[str, Any]]] = {}
    columns = ["reason", "source_file", "source_line", "text"]
    for batch in read_batches(scope, "quarantine", columns):
        rows = pa.Table.from_batches([batch]).sort_by(
            [("source_file", "ascending"), ("source_line", "ascending")]
        )
        lines.update(rows["reason"].to_pylist())
        for reason in pc.unique(rows["reason"]).to_pylist():
            own = rows.filter(pc.equal(rows["reason"], reason)).slice(0, SAMPLES_MAX)
            seen = [*first.get(reason, []), *own.to_pylist()]
            seen.sort(key=lambda row: (row["source_file"], row["source_line"]))
            first[reason] = seen[:SAMPLES_MAX]
    return tuple(
        QuarantineReason(
            reason,
            number,
            tuple((s["source_file"], s["source_line"], _cut(s["text"])) for s in first[reason]),
        )
        for reason, number in sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    )


def _cut(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _SAMPLE_LENGTH_MAX else f"{text[: _SAMPLE_LENGTH_MAX - 1]}…"
