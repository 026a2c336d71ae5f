"""``docs/reference/cli.md``: every command of ``quota-audit``, as the program itself has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from spark_jobs.cli.app import app, main

HEAD = """\
# Commands
<!-- Written by `make reference` from spark_jobs/cli/app.py: change it there. -->

{about} Each prints this with `--help`.

{exit_codes}

Settings of the environment that the commands follow: [configuration.md](configuration.md).
Which command writes which table: [architecture](../architecture.md).
"""


def cli_page() -> str:
    """Return the page as Markdown, commands in the order of the program's own help."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    head = HEAD.format(about=group.help, exit_codes=_exit_codes())
    listed = "\n".join(
        f"| [`{name}`](#quota-audit-{name}) | {_cell(command.help or '')} |"
        for name, command in _commands(group)
    )
    parts = [head, "| command | what it does |\n|---|---|\n" + listed + "\n"]
    parts += [_section(name, command) for name, command in _commands(group)]
    return "\n".join(parts)


def _commands(group: TyperGroup) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        assert isinstance(command, TyperCommand), f"{name} is no plain command"
        yield name, command


def _exit_codes() -> str:
    said = (main.__doc__ or "").partition("; ")[2].rstrip(".")
    assert said.startswith("exit 0 "), "main() says what the exit codes mean"
    return "Exit codes: " + said.removeprefix("exit ") + "."


def _section(name: str, command: TyperCommand) -> str:
    arguments = [p for p in command.params if isinstance(p, TyperArgument)]
    usage = " ".join(["quota-audit", name, *(_argument(a) for a in arguments), "[OPTIONS]"])
    rows = "\n".join(_rows(command))
    return (
        f"## `quota-audit {name}`\n{command.help}\n\n```text\n{usage}\n```\n\n"
        f"| option | meaning | default |\n|---|---|---|\n{rows}\n"
    )


def _argument(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _rows(command: TyperCommand) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, TyperArgument):
            yield _row(f"`{_argument(param).strip('[]')}`", param)
        elif isinstance(param, TyperOption):
            first, *others = param.opts
            spelled = first if param.is_flag else f"{first} {_value(param)}"
            yield _row(", ".join(f"`{name}`" for name in (spelled, *others)), param)


def _row(name: str, param: TyperArgument | TyperOption) -> str:
    return f"| {name} | {_cell(param.help or '')} | {_due(param)} |"


def _value(option: TyperOption) -> str:
    # As `--help` calls them; of a repeatable option the kind of one value.
    kinds = {Path: "PATH", str: "TEXT", int: "INTEGER", float: "NUMBER"}
    kind = option.type_descriptor.annotation
    kind = get_args(kind)[0] if get_args(kind) else kind
    return option.metavar or kinds[kind]


def _due(param: TyperArgument | TyperOption) -> str:
    if param.required:
        return "required"
    if param.default in (None, "", False):
        return ""
    return f"`{param.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
