"""Exceptions of this project: each says what was found, expected, where, and what to do."""

from __future__ import annotations

WHAT_OF_DAMAGE = (
    "It was cut or changed since it was written. Ingest its day again; nothing else is touched."
)


class QuotaAuditError(Exception):
    """Base of every error this project raises on purpose; its text is shown to the user as is."""

    exit_code = 2


class BadInputError(QuotaAuditError):
    """An archive, option, snapshot or configuration that cannot be used as given (exit 2)."""


class AuditFailedError(QuotaAuditError):
    """The audit did not hold: conservation, a lost table, a step that broke (exit 1)."""

    exit_code = 1


class DataQualityError(AuditFailedError):
    """A critical expectation failed: the data is bad; nothing is published (exit 1)."""


class CheckBrokenError(AuditFailedError):
    """An expectation could not be evaluated: the check is broken, the data unknown (exit 1)."""
