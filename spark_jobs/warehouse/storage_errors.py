"""What object storage says when it does not do as it was asked, for people."""

from __future__ import annotations

import os
import re

_SAID = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status \d+\))? during \w+ operation: "
    r"(?P<detail>.*?)(?: \(Request ID.*)?$",
    re.MULTILINE,  # a worker's traceback may stand around it
)
_UNREACHABLE = frozenset({"NETWORK_CONNECTION", "REQUEST_TIMEOUT"})
_REFUSED = frozenset(
    {
        "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "EXPIRED_TOKEN",
        "INVALID_CLIENT_TOKEN_ID", "MISSING_AUTHENTICATION_TOKEN", "UNRECOGNIZED_CLIENT",
    }
)  # fmt: skip


def endpoint() -> str | None:
    """Return where the service is, as AWS's own tools are told; None: at Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _where() -> str:
    # Without the user and password that an address may hold.
    return (endpoint() or "Amazon S3").rpartition("@")[2]


def said_of_storage(error: BaseException) -> str | None:
    """Return, for people, what an error of the S3 client says; None where it is none."""
    said = _SAID.search(str(error))
    if said is None:
        return None
    code, detail = said["code"], said["detail"].strip()
    where = _where()
    if code == "NO_SUCH_BUCKET":
        named = re.search(r"bucket '([^']+)'", str(error))
        return no_bucket(named[1] if named else "of that name")
    if code in _UNREACHABLE:
        return (
            f"The object storage at {where} does not answer ({detail}). Check AWS_ENDPOINT_URL, "
            "AWS_REGION and the network."
        )
    if code in _REFUSED:
        return (
            f"The object storage at {where} refuses these credentials ({code.lower()}: {detail}). "
            "It takes AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's "
            "role, which must be allowed to list, read, write and delete in the bucket."
        )
    return (
        f"The object storage at {where} gave up ({code.lower()}: {detail}). Check AWS_REGION and "
        "AWS_ENDPOINT_URL."
    )


def no_bucket(name: str) -> str:
    """Return what to say where there is no such bucket."""
    return (
        f"There is no bucket {name} at {_where()}. Make it, or check the name, AWS_REGION and "
        "AWS_ENDPOINT_URL: no bucket is made for you."
    )
