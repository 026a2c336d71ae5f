from __future__ import annotations

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.java_properties import Property, read_properties


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=1", "a", "1"),
        ("a = 1 ", "a", "1 "),
        ("a:1", "a", "1"),
        ("a 1", "a", "1"),
        ("  a\t=\t1", "a", "1"),
        ("a", "a", ""),
        ("a==b", "a", "=b"),
        ("a\\=b=c", "a=b", "c"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=\\u00e9\\t\\q", "a", "é\tq"),
        ("a=1\r\nb=2", "a", "1"),
        ("a=1\na=2", "a", "2"),
        ("a=b\\", "a", "b"),
    ],
)
def test_properties_read_as_java_reads_them(text: str, key: str, value: str) -> None:
    assert read_properties(text, "f")[key].value == value


def test_comments_and_empty_lines_are_skipped_but_counted() -> None:
    text = "# c=1\n\n  ! d=2\na=1\\\n  2\nb=3"
    assert read_properties(text, "f") == {"a": Property("12", 4), "b": Property("3", 6)}


def test_a_malformed_escape_is_named() -> None:
    with pytest.raises(BadInputError, match=r"broker=1/server.properties, line 2: found.*u00g0"):
        read_properties("a=1\nb=\\u00g0", "broker=1/server.properties")
