"""The scripts, as bash and kafka-configs.sh see them: a fake tool records what it was given."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.recommend.kafka_configs import apply_script, entity_arguments, rollback_script
from tests.tables_builder import Row, row

HOSTILE = [
    "plain",
    "two words",
    "a,b",
    "[x]",
    "a=b",
    "it's",
    'say "hi"',
    "$(touch owned)",
    "`touch owned`",
    "$HOME",
    "back\\slash",
    "semi;touch owned",
    "line\nbreak\ntouch owned",
    "--entity-default",
    "*",
    "ünï",
    "!history",
    "# comment",
]
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def proposal(user: str | None = "alice", client_id: str | None = None, **columns: object) -> Row:
    return row("recommendations", quota_user=user, quota_client_id=client_id, **columns)


@pytest.fixture(scope="module")
def fake_tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool = tmp_path_factory.mktemp("a folder") / "kafka-configs.sh"
    tool.write_text(
        '#!/usr/bin/env bash\nprintf "%s\\0" "$@" >> "$CALLS"; printf "\\n\\0" >> "$CALLS"\n'
        '[[ "$*" != *"$FAIL_ON"* ]]\n'
    )
    tool.chmod(0o755)
    return tool


def run(
    script: str, tool: Path, fail_on: str = "no such thing", **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """Run ``script`` in the tool's folder; return how it ended and the arguments of each call."""
    calls = tool.parent / "calls"
    calls.unlink(missing_ok=True)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tool.parent,
        env={
            "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(calls),
            "FAIL_ON": fail_on,
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    recorded = calls.read_bytes().decode() if calls.exists() else ""
    return done, [call.split("\0")[:-1] for call in recorded.split("\n\0")[:-1]]


def calls_of(script: str, tool: Path) -> list[list[str]]:
    done, calls = run(script, tool, BOOTSTRAP="broker-1:9092")
    assert done.returncode == 0, done.stderr
    return calls


def test_a_proposal_is_one_call_that_sets_the_value(fake_tool: Path) -> None:
    calls = calls_of(apply_script([proposal(proposed=100_000.0)]), fake_tool)
    assert calls == [
        ["--bootstrap-server", "broker-1:9092", "--alter", "--entity-type", "users",
         "--entity-name", "alice", "--add-config", "producer_byte_rate=100000"]
    ]  # fmt: skip


USERS, CLIENTS = ["--entity-type", "users"], ["--entity-type", "clients"]
ALICE, ETL, BY_DEFAULT = ["--entity-name", "alice"], ["--entity-name", "etl"], ["--entity-default"]


@pytest.mark.parametrize(
    ("user", "client_id", "arguments"),
    [
        ("alice", None, USERS + ALICE),
        (None, "etl", CLIENTS + ETL),
        ("<default>", None, USERS + BY_DEFAULT),
        (None, "<default>", CLIENTS + BY_DEFAULT),
        ("alice", "etl", USERS + ALICE + CLIENTS + ETL),
        ("alice", "<default>", USERS + ALICE + CLIENTS + BY_DEFAULT),
        ("<default>", "etl", USERS + BY_DEFAULT + CLIENTS + ETL),
        ("<default>", "<default>", USERS + BY_DEFAULT + CLIENTS + BY_DEFAULT),
    ],
)
def test_every_level_is_named_as_the_tool_wants_it(
    user: str | None, client_id: str | None, arguments: list[str]
) -> None:
    assert entity_arguments(user, client_id) == arguments


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_reaches_the_tool_as_it_is_and_runs_nothing(fake_tool: Path, name: str) -> None:
    (call,) = calls_of(
        apply_script([proposal(name, name, reason=f"Because of {name}.")]), fake_tool
    )
    assert call[3:-2] == entity_arguments(name, name)
    assert not (fake_tool.parent / "owned").exists()


@given(names, names)
@settings(deadline=None, max_examples=25)
def test_any_name_reaches_the_tool_as_it_is(fake_tool: Path, user: str, client_id: str) -> None:
    # The fake tool's own records end in a line break: names keep theirs inside a record.
    row_ = proposal(f"{user}.", f"{client_id}.")
    script = apply_script([row_])
    calls = calls_of(script, fake_tool)
    assert [call[3:-2] for call in calls] == [entity_arguments(f"{user}.", f"{client_id}.")]


def test_a_rollback_restores_the_value_there_was(fake_tool: Path) -> None:
    (call,) = calls_of(rollback_script([proposal()], [50_000.0]), fake_tool)
    assert call[-2:] == ["--add-config", "producer_byte_rate=50000"]


def test_a_rollback_deletes_a_value_where_there_was_none(fake_tool: Path) -> None:
    (call,) = calls_of(rollback_script([proposal()], [None]), fake_tool)
    assert call[-2:] == ["--delete-config", "producer_byte_rate"]


def test_a_rollback_goes_backwards(fake_tool: Path) -> None:
    rows = [proposal("alice"), proposal("bob")]
    applied, taken_back = apply_script(rows), rollback_script(rows, [None, None])
    users = [[call[6] for call in calls_of(s, fake_tool)] for s in (applied, taken_back)]
    assert users == [["alice", "bob"], ["bob", "alice"]]


def test_what_is_kept_or_unknown_changes_nothing(fake_tool: Path) -> None:
    rows = [proposal(status=s, proposed=None) for s in ("keep", "not_enough_data")]
    for script in (apply_script(rows), rollback_script(rows, [1.0, None])):
        assert calls_of(script, fake_tool) == []
        assert "No change is proposed" in script


@pytest.mark.parametrize("environment", [{}, {"BOOTSTRAP": ""}])
def test_without_bootstrap_nothing_is_called(fake_tool: Path, environment: dict[str, str]) -> None:
    done, calls = run(apply_script([proposal()]), fake_tool, **environment)
    assert done.returncode != 0
    assert calls == []
    assert "BOOTSTRAP: is not set" in done.stderr


def test_credentials_come_as_the_path_of_a_file_only(fake_tool: Path) -> None:
    script = apply_script([proposal()])
    path = "/etc/kafka admin.properties"
    _, (call,) = run(script, fake_tool, BOOTSTRAP="b:1", COMMAND_CONFIG=path)
    assert call[:5] == ["--bootstrap-server", "b:1", "--command-config", path, "--alter"]


def test_the_tool_may_be_named(fake_tool: Path, tmp_path: Path) -> None:
    other = tmp_path / "other tool"
    other.write_bytes(fake_tool.read_bytes())
    other.chmod(0o755)
    script = apply_script([proposal()])
    _, calls = run(
        script, fake_tool, PATH="/usr/bin:/bin", BOOTSTRAP="b:1", KAFKA_CONFIGS=str(other)
    )
    assert len(calls) == 1


def test_the_first_failure_stops_the_script(fake_tool: Path) -> None:
    script = apply_script([proposal("alice"), proposal("bob"), proposal("carol")])
    done, calls = run(script, fake_tool, fail_on="bob", BOOTSTRAP="b:1")
    assert done.returncode != 0
    assert [call[6] for call in calls] == ["alice", "bob"]


def test_each_command_has_its_reason_before_it() -> None:
    rows = [proposal(name, reason=f"Reason for {name}.") for name in ("a\nb", "c")]
    for script in (apply_script(rows), rollback_script(rows, [1.0, None])):
        body = script.partition("\n}\n")[2]
        blocks = [block for block in body.split("\n\n") if block.strip()]
        assert len(blocks) == 2
        for block in blocks:
            assert re.match(r"#.+\n#.+\nalter ", block.lstrip("\n")), block
    assert "Reason for c." in apply_script(rows)


def test_byte_rates_have_no_fraction_and_the_others_may() -> None:
    rows = [
        proposal(proposed=1_250_000.0),
        proposal(quota_type="controller_mutation_rate", proposed=2.5),
    ]
    script = apply_script(rows)
    assert "producer_byte_rate=1250000\n" in script
    assert "controller_mutation_rate=2.5\n" in script


@pytest.mark.parametrize("name", HOSTILE)
def test_bash_can_read_the_scripts(name: str) -> None:
    rows = [proposal(name, name, reason=name)]
    for script in (apply_script(rows), rollback_script(rows, [1.0])):
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
