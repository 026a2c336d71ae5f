"""Write the pages that are made from the sources: ``python -m docs.generate`` in the project."""

from __future__ import annotations

from pathlib import Path

from docs.generate.architecture_picture import architecture_picture
from docs.generate.cli_page import cli_page
from docs.generate.configuration_page import configuration_page
from docs.generate.json_schemas import alert_schema_text, finding_schema_text
from docs.generate.pipeline_tables import airflow_page, architecture_page

PAGES = {
    "airflow.md": airflow_page,
    "architecture.md": architecture_page,
    "reference/alert.schema.json": alert_schema_text,
    "reference/finding.schema.json": finding_schema_text,
    "architecture.svg": architecture_picture,
    "reference/cli.md": cli_page,
    "reference/configuration.md": configuration_page,
}
DOCS = Path(__file__).parents[1]


def main() -> None:
    """Write every page over what is there."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
