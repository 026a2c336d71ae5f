"""The scripts, as bash and kafka-configs.sh see them: a fake tool records what it was given."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, proposed_alterations
from spark_jobs.apply.changes.targets.kafka_configs import entity_arguments
from spark_jobs.apply.changes.targets.target import Rendered
from spark_jobs.apply.render import render
from tests.builders.tables_builder import row
from tests.spark_jobs.apply.changes.fixed_alterations import MUTATION, alteration
from tests.spark_jobs.apply.changes.script_calls import calls_of, recording_tool, run

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


@pytest.fixture(scope="module")
def fake_tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording_tool(tmp_path_factory.mktemp("a folder"))


def rendered(*alterations: QuotaAlteration) -> Rendered:
    scripts = render("kafka-configs", alterations, ())
    assert scripts.refusals == ()
    return scripts


def apply_script(*alterations: QuotaAlteration) -> str:
    return rendered(*alterations).text


def rollback_script(*alterations: QuotaAlteration) -> str:
    return rendered(*alterations).rollback


def test_a_proposal_is_one_call_that_sets_the_value(fake_tool: Path) -> None:
    calls = calls_of(apply_script(alteration()), fake_tool)
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
    script = apply_script(alteration(name, name, reason=f"Because of {name}."))
    (call,) = calls_of(script, fake_tool)
    assert call[3:-2] == entity_arguments(name, name)
    assert not (fake_tool.parent / "owned").exists()


@given(names, names)
@settings(max_examples=25)
def test_any_name_reaches_the_tool_as_it_is(fake_tool: Path, user: str, client_id: str) -> None:
    # The fake tool's own records end in a line break: names keep theirs inside a record.
    script = apply_script(alteration(f"{user}.", f"{client_id}."))
    calls = calls_of(script, fake_tool)
    assert [call[3:-2] for call in calls] == [entity_arguments(f"{user}.", f"{client_id}.")]


def test_a_rollback_restores_the_value_there_was(fake_tool: Path) -> None:
    (call,) = calls_of(rollback_script(alteration()), fake_tool)
    assert call[-2:] == ["--add-config", "producer_byte_rate=50000"]


def test_a_rollback_deletes_a_value_where_there_was_none(fake_tool: Path) -> None:
    (call,) = calls_of(rollback_script(alteration(before=None)), fake_tool)
    assert call[-2:] == ["--delete-config", "producer_byte_rate"]


def test_a_rollback_goes_backwards(fake_tool: Path) -> None:
    scripts = rendered(alteration("alice", before=None), alteration("bob", before=None))
    users = [
        [call[6] for call in calls_of(script, fake_tool)]
        for script in (scripts.text, scripts.rollback)
    ]
    assert users == [["alice", "bob"], ["bob", "alice"]]


def test_what_is_kept_or_unknown_changes_nothing(fake_tool: Path) -> None:
    kept = [row("recommendations", status=s, proposed=None) for s in ("keep", "not_enough_data")]
    scripts = rendered(*proposed_alterations(kept))
    for script in (scripts.text, scripts.rollback):
        assert calls_of(script, fake_tool) == []
        assert "No change is proposed" in script


@pytest.mark.parametrize("environment", [{}, {"BOOTSTRAP": ""}])
def test_without_bootstrap_nothing_is_called(fake_tool: Path, environment: dict[str, str]) -> None:
    done, calls = run(apply_script(alteration()), fake_tool, **environment)
    assert done.returncode != 0
    assert calls == []
    assert "BOOTSTRAP: is not set" in done.stderr


def test_credentials_come_as_the_path_of_a_file_only(fake_tool: Path) -> None:
    script = apply_script(alteration())
    path = "/etc/kafka admin.properties"
    _, (call,) = run(script, fake_tool, BOOTSTRAP="b:1", COMMAND_CONFIG=path)
    assert call[:5] == ["--bootstrap-server", "b:1", "--command-config", path, "--alter"]


def test_the_tool_may_be_named(fake_tool: Path, tmp_path: Path) -> None:
    other = tmp_path / "other tool"
    other.write_bytes(fake_tool.read_bytes())
    other.chmod(0o755)
    script = apply_script(alteration())
    _, calls = run(
        script, fake_tool, PATH="/usr/bin:/bin", BOOTSTRAP="b:1", KAFKA_CONFIGS=str(other)
    )
    assert len(calls) == 1


def test_the_first_failure_stops_the_script(fake_tool: Path) -> None:
    script = apply_script(*map(alteration, ["alice", "bob", "carol"]))
    done, calls = run(script, fake_tool, fail_on="bob", BOOTSTRAP="b:1")
    assert done.returncode != 0
    assert [call[6] for call in calls] == ["alice", "bob"]


def test_each_command_has_its_reason_before_it() -> None:
    scripts = rendered(
        alteration("a\nb", reason="Reason for a\nb."),
        alteration("c", before=None, reason="Reason for c."),
    )
    for script in (scripts.text, scripts.rollback):
        body = script.rpartition("\n}\n")[2]
        blocks = [block for block in body.split("\n\n") if block.strip()]
        assert len(blocks) == 2
        for block in blocks:
            assert re.match(r"#.+\n#.+\n(alter|remove) ", block.lstrip("\n")), block
    assert "Reason for c." in scripts.text


def test_byte_rates_have_no_fraction_and_the_others_may() -> None:
    script = apply_script(alteration(after=1_250_000.0), alteration(quota_type=MUTATION, after=2.5))
    assert "producer_byte_rate=1250000\n" in script
    assert "controller_mutation_rate=2.5\n" in script


@pytest.mark.parametrize("name", HOSTILE)
def test_bash_can_read_the_scripts(name: str) -> None:
    scripts = rendered(alteration(name, name, reason=name))
    for script in (scripts.text, scripts.rollback):
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_refusals_are_said_in_the_script_and_run_nothing(fake_tool: Path) -> None:
    name = "a\0b\ntouch owned"
    scripts = render("kafka-configs", [alteration(name), alteration("bob")], ())
    (refusal,) = scripts.refusals
    assert "zero byte" in refusal.reason
    assert f"{refusal.reason}\n" in scripts.text
    assert [call[6] for call in calls_of(scripts.text, fake_tool)] == ["bob"]
    assert not (fake_tool.parent / "owned").exists()


@pytest.mark.parametrize(
    ("said", "code"), [("Invalid config(s): producer_byte_rate", 0), ("No route to host", 1)]
)
def test_nothing_to_delete_is_as_good_as_deleted(tmp_path: Path, said: str, code: int) -> None:
    tool = tmp_path / "kafka-configs.sh"
    tool.write_text(f"#!/usr/bin/env bash\necho '{said}' >&2\nexit 1\n")
    tool.chmod(0o755)
    script = apply_script(alteration(after=None))
    done, _ = run(script, tool, BOOTSTRAP="b:1")
    assert done.returncode == code
    assert (said in done.stderr) == (code == 1)
