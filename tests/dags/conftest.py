from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture(scope="session")
def bag(airflow_home: Path) -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAGS))
