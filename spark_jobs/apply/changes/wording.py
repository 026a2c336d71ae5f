"""Entities, values and changes of quotas in the words of comments and refusals."""

from __future__ import annotations

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.wording.numbers import unit_of


def amount(value: float, quota_type: str) -> str:
    """Return a value with its unit, as sentences have it.

    >>> amount(1_250_000.0, "producer_byte_rate"), amount(2.5, "controller_mutation_rate")
    ('1,250,000 B/s', '2.5 partitions/s')
    """
    digits = f"{value:,.0f}" if value >= 100 or value.is_integer() else f"{value:.3g}"
    return f"{digits} {unit_of(quota_type)}"


def number(value: float) -> int | float:
    """Return a value without the fraction it does not have, as every target writes it.

    >>> number(1_250_000.0), number(2.5)
    (1250000, 2.5)
    """
    return int(value) if value.is_integer() and abs(value) <= 2.0**63 else value


def named(user: str | None, client_id: str | None) -> str:
    """Return an entity as sentences name it.

    >>> named("alice", "<default>")
    "user 'alice', every client-id by default"
    """
    parts = (("user", user), ("client-id", client_id))
    return ", ".join(
        f"every {kind} by default" if name == DEFAULT else f"{kind} '{name}'"
        for kind, name in parts
        if name is not None
    )


def subject(alteration: QuotaAlteration) -> str:
    """Return the subject of an alteration, as in ``producer_byte_rate of user 'alice'``."""
    return f"{alteration.quota_type} of {named(*alteration.entity) or 'no entity'}"


def change_sentence(alteration: QuotaAlteration) -> str:
    """Return current → proposed, and why.

    >>> change_sentence(QuotaAlteration("producer_byte_rate", "a", None, None, 5e4, "Because."))
    'no value of its own → 50,000 B/s. Because.'
    """
    now, then = (
        "no value of its own" if value is None else amount(value, alteration.quota_type)
        for value in (alteration.before, alteration.after)
    )
    return f"{now} → {then}. {alteration.reason}".rstrip()


def one_line(text: str) -> str:
    """Return ``text`` with what is not printable spelled out: a name may hold a line break."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def comment(*lines: str) -> str:
    """Return ``lines`` as comments that start with ``#``, one line each."""
    return "".join(f"# {one_line(line)}\n" for line in lines)
