"""Messages for the tests of this folder."""

from __future__ import annotations

from spark_jobs.publish.records import AlertMessage
from tests.builders.tables_builder import DAY

HOSTILE = "{{ 7*7 }}<script>alert(1)</script><!channel>&<@U1>"


def message(
    text: str = f"New (1)\n  critical  client-id '{HOSTILE}'\n", **changed: str
) -> AlertMessage:
    """Return a message about a client with a hostile name."""
    fields = {"kind": "news", "run_id": "manual__x", "url": "https://a.example/x?a=1&b=2"} | changed
    return AlertMessage(
        cluster="default",
        day=DAY,
        subject=f"1 new: {HOSTILE}",
        text=text,
        **fields,  # type: ignore[arg-type]
    )
