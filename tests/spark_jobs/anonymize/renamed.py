"""What an audit of a copy has to say, given what it says of the archive: the same, renamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms

# Of the copy's own bytes, or of what a line said that is no name.
NOT_COMPARED = {"digest", "day_digest", "bytes_read", "modified_ns", "text"}


class Renamed:
    """Rows of an archive's tables under a copy's pseudonyms; ``copies`` are its files' paths."""

    def __init__(self, key: bytes, copies: Mapping[str, str]) -> None:
        names = Pseudonyms(key)
        self.names, self.copies = names, copies
        self.originals: dict[str, str] = {}

        def name(text: str) -> str:
            return names.name(text, Kind.TOPIC)

        def topic(text: str) -> str:
            return names.uuid(text) if len(text) == 22 else name(text)

        self._by_column: dict[str, Callable[[str], str]] = {
            "principal": names.principal, "connection": names.connection, "user": name,
            "quota_user": name, "client_id": name, "quota_client_id": name,
            "listener": names.listener, "topic": topic, "resource": topic,
            "software_name": names.software, "software_version": names.software_version,
            "source_file": lambda path: copies[path], "duplicate_of": lambda path: copies[path],
        }  # fmt: skip

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of the archive's table as one of the copy's."""
        return {
            column: self._value(column, value)
            for column, value in row.items()
            if column not in NOT_COMPARED
        }

    def _value(self, column: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(column, each) for each in value]
        if isinstance(value, dict):
            return self.row(value)
        if not isinstance(value, str) or column not in self._by_column:
            return value
        renamed = self._by_column[column](value)
        self.originals[renamed] = value
        return renamed

    def text_of_archive(self, text: str) -> str:
        """Return a sentence about the copy with the names of the archive; call it after row()."""
        for renamed in sorted(self.originals, key=len, reverse=True):
            if len(renamed) > 2:
                text = text.replace(renamed, self.originals[renamed])
        return text
