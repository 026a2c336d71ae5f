"""``docs/reference/configuration.md``: every setting, as the classes and their comments have it."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from spark_jobs import settings
from spark_jobs.settings import Settings

SOURCE = Path(inspect.getfile(settings))
HEAD = """\
# Settings of the environment
<!-- Written by `make reference` from spark_jobs/settings.py: change it there. -->

Every setting has a default. Lists and tables are written as JSON, such as
`QUOTA_AUDIT_LAUNCHER='["/opt/quota-audit/bin/quota-audit"]'`.
Options of the [commands](cli.md) win over settings.

Not ours, and set by this project where it starts something: `AIRFLOW_HOME` and `AIRFLOW__…`
([Airflow](../airflow.md)), `PYSPARK_PYTHON` (this interpreter), `GX_ANALYTICS_ENABLED` (`false`:
Great Expectations sends nothing).
"""


def configuration_page() -> str:
    """Return the page as Markdown, classes and fields in the order of the source."""
    return "\n".join([HEAD, *(_section(cls) for cls in settings_classes())])


def settings_classes() -> list[type[Settings]]:
    """Return the settings classes in the order of the source."""
    found = [
        value
        for value in vars(settings).values()
        if isinstance(value, type) and issubclass(value, Settings) and value is not Settings
    ]
    return sorted(found, key=lambda cls: inspect.getsourcelines(cls)[1])


def meanings(cls: type[Settings]) -> dict[str, str]:
    """Return the comment right above each field of ``cls``; raises ValueError where one is missing.

    A comment belongs to the field that follows it and to no other.
    """
    lines = SOURCE.read_text("utf-8").splitlines()
    found: dict[str, str] = {}
    for node in _body(cls):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comment = _comment_above(lines, node.lineno - 1)
            if not comment:
                raise ValueError(
                    f"{SOURCE.name}:{node.lineno}: {cls.__name__}.{node.target.id} has no comment "
                    "above it that says what it means; docs/reference/configuration.md shows that."
                )
            found[node.target.id] = comment
    return found


def _body(cls: type[Settings]) -> list[ast.stmt]:
    for node in ast.parse(SOURCE.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return node.body
    raise ValueError(f"{SOURCE.name} has no class {cls.__name__}")


def _comment_above(lines: list[str], index: int) -> str:
    above: list[str] = []
    while index and lines[index - 1].strip().startswith("#"):
        index -= 1
        above.insert(0, lines[index].strip().lstrip("# "))
    return " ".join(above)


def _section(cls: type[Settings]) -> str:
    about = " ".join((cls.__doc__ or "").split()).replace("``", "`")
    rows = "\n".join(_rows(cls))
    head = "| environment | type | default | meaning |\n|---|---|---|---|\n"
    return f"## {cls.__name__}\n{about}\n\n{head}{rows}\n"


def _rows(cls: type[Settings]) -> Iterator[str]:
    said = meanings(cls)
    prefix = cls.model_config["env_prefix"]
    for name, field in cls.model_fields.items():
        kind = _kind(field.annotation) + _limits(field.metadata)
        yield f"| `{prefix}{name.upper()}` | {kind} | {_default(field)} | {_cell(said[name])} |"


def _kind(annotation: Any) -> str:
    if annotation is SecretStr or SecretStr in getattr(annotation, "__args__", ()):
        return "secret"
    text = str(annotation) if hasattr(annotation, "__args__") else annotation.__name__
    names = {
        "bool": "true or false",
        "float": "number",
        "int": "whole number",
        "str": "text",
        "Path": "path",
        "pathlib.Path | None": "path",
        "pathlib._local.Path | None": "path",
        "dict[str, float]": "table of numbers",
        "dict[str, int]": "table of whole numbers",
        "dict[str, spark_jobs.settings.KafkaTarget]": "table of targets",
        "tuple[str, ...]": "list of texts",
    }
    if text.startswith("typing.Literal"):
        return " or ".join(f"`{value}`" for value in annotation.__args__)
    return names[text]


def _limits(metadata: list[Any]) -> str:
    signs = {"ge": "≥", "gt": "&gt;", "le": "≤", "lt": "&lt;"}
    found = [
        f"{sign} {getattr(limit, name):,}"
        for limit in metadata
        for name, sign in signs.items()
        if getattr(limit, name, None) is not None
    ]
    return f", {', '.join(found)}" if found else ""


def _default(field: Any) -> str:
    value = field.default
    if value is PydanticUndefined:
        value = field.default_factory()
    if value is None or value in ("", (), {}):
        return ""
    text = json.dumps(value) if isinstance(value, bool | tuple) else str(value)
    return f"`{text}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
