"""The page's message on this machine: its commands word for word, but for `make` and the port."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.docs.pages import ROOT, blocks
from tests.docs.workspace import make_clone, run_block
from tests.oracle.lab import free_ports

PAGE = ROOT / "docs" / "howto" / "alerting.md"
SCHEMA = ROOT / "docs" / "reference" / "alert.schema.json"


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_run_sends_one_message_that_the_page_takes(tmp_path: Path) -> None:
    (block,) = [b for b in blocks(PAGE) if "test_try_an_alert.py" in (b.not_run or "")]
    (port,) = map(str, free_ports(1))
    # What `make audit` runs, once the environment is set up.
    command = block.text.replace("make audit", ".venv/bin/python -m quota_dags.local.audit audit")
    for name in ("ARCHIVE", "WAREHOUSE"):
        assert f" {name}=" in command
        command = command.replace(f" {name}=", f" --{name.lower()} ")
    clone = make_clone(tmp_path)
    ran = run_block(clone, command.replace("8099", port))
    assert ran.exit_code == 0, ran.printed[-3000:]
    message = json.loads((clone / "artifacts" / "message.json").read_text())
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(message)
    assert message["kind"] == "news"
    assert "controller_mutation_rate not enforced: user 'carol'" in message["text"]
