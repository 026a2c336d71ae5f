"""YAML files of ours: one list under one name, with comments that stay where they are."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from spark_jobs.errors import BadInputError

Entry = TypeVar("Entry")


def document_of(text: str, name: str, list_name: str, how: str) -> Any:
    """Return the document of the file ``name``: a mapping with the list, None where it is empty.

    Raises BadInputError where it is no YAML or another document; ``how`` ends its sentence.
    """
    try:
        document = _yaml().load(text)
    except YAMLError as error:
        raise BadInputError(f"{name} is no YAML: {' '.join(str(error).split())}. {how}") from error
    is_ours = isinstance(document, Mapping) and set(document) == {list_name}
    if not is_ours or not isinstance(document[list_name], (list, type(None))):
        raise BadInputError(f"{name} is not a list named '{list_name}' and nothing else. {how}")
    return document


def entry_of(entries: Any, place: int, name: str, kind: type[Entry], how: str) -> tuple[str, Entry]:
    """Return the file and line of an entry of the list, in words, and the entry.

    Raises BadInputError that says where and why it is none; ``how`` ends its sentence.
    """
    where = f"{name}, line {entries.lc.item(place)[0] + 1}"
    try:
        return where, msgspec.convert(entries[place], kind, builtin_types=(dt.date,))
    except msgspec.ValidationError as error:
        raise BadInputError(f"{where}: {error}. {how}") from error


def text_of(document: Any) -> str:
    """Return a document as the text of its file."""
    out = io.StringIO()
    _yaml().dump(document, out)
    return out.getvalue()


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.allow_unicode = True
    yaml.width = 4096
    return yaml
