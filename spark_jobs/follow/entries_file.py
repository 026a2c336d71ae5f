"""YAML files of ours: one list under one name, with comments that stay where they are."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from spark_jobs.errors import BadInputError


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


def entry_line(entries: Any, place: int) -> int:
    """Return the number of the line at which an entry of the list begins."""
    line: int = entries.lc.item(place)[0]
    return line + 1


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
