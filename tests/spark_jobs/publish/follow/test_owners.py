from __future__ import annotations

import datetime as dt

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.publish.follow.kept_files import Owner, read_owners

DAY = dt.date(2026, 11, 10)
FILE = """\
owners:
  - match: orders-.*     # their services
    part: client-id
    team: Orders
    contact: "#orders"
  - match: billing
    part: user
    team: Billing old
    contact: old@example.com
    valid_until: 2026-11-09
  - match: bill.*
    team: Billing
    contact: billing@example.com
    valid_from: 2026-11-10
"""
ORDERS, BILLING = Owner("Orders", "#orders"), Owner("Billing", "billing@example.com")


@pytest.mark.parametrize(
    ("user", "client_id", "owner"),
    [
        ("alice", "orders-1", ORDERS),
        ("orders-1", "app", None),
        ("alice", "my-orders-1", None),
        ("billing", "orders-7", ORDERS),
        ("billing", "", BILLING),
        ("alice", "bills", BILLING),
        ("", "", None),
    ],
)
def test_the_first_rule_that_fits_a_whole_name_wins(
    user: str, client_id: str, owner: Owner | None
) -> None:
    assert read_owners(FILE, "owners.yaml").of(user, client_id, DAY) == owner


def test_a_rule_holds_from_its_first_to_its_last_day() -> None:
    owners = read_owners(FILE, "owners.yaml")
    found = [owners.of("billing", "", DAY + dt.timedelta(days=n)) for n in (-1, 0)]
    assert found == [Owner("Billing old", "old@example.com"), BILLING]


def test_an_empty_name_is_nobodys_whatever_the_rules_fit() -> None:
    text = "owners:\n  - {match: '.*', team: All, contact: a}\n"
    assert read_owners(text, "o").of("", "", DAY) is None


def test_each_team_is_named_once() -> None:
    text = FILE + "  - {match: x, team: Orders, contact: '#orders'}\n"
    assert [owner.team for owner in read_owners(text, "o").teams()] == [
        "Orders", "Billing old", "Billing",
    ]  # fmt: skip


def test_an_empty_list_owns_nothing() -> None:
    assert read_owners("owners:\n", "o").teams() == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("owners: 3", "is not a list named 'owners'"),
        ("", "is not a list named 'owners'"),
        ("owners:\n  - match: a\n    team: A\n", "line 2: Object missing required field `contact`"),
        ("owners:\n  - {match: '(', team: A, contact: a}\n", "line 2: match is '(', which is no"),
        (FILE.replace("part: user", "part: principal"), "line 6: Invalid enum value 'principal'"),
        (
            "owners:\n  - {match: a, team: A, contact: a, valid_from: 2026-11-10, "
            "valid_until: 2026-11-09}\n",
            "valid_until 2026-11-09 is before valid_from 2026-11-10",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_owners(text, "owners.yaml")
    assert said in str(caught.value)
