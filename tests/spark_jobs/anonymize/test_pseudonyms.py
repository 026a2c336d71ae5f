from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.anonymize import pseudonyms as room
from spark_jobs.anonymize.permutation import NAME_LETTERS
from spark_jobs.anonymize.pseudonyms import KEPT_NAMES, Kind, Pseudonyms
from spark_jobs.ingest.quota_sources.restarts import _CONNECTION

LETTERS = "".join(map(NAME_LETTERS.character, range(NAME_LETTERS.size)))
KEY = b"a key of thirty-two bytes, or so"
NAMES = st.one_of(
    st.text(max_size=40),
    st.text(LETTERS, max_size=40),
    st.from_regex(r"CN=\w{1,12},OU=\w{0,9},O=[A-Z]\w{0,9}( Inc\.)?,C=[A-Z]{2}", fullmatch=True),
    st.sampled_from([*KEPT_NAMES, "User:alice", "User%3AAlice", "a\\u0062", "*", "größe", "日本"]),
)
TOPIC = Kind.TOPIC


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8"))


@given(NAMES, NAMES)
def test_different_names_have_different_pseudonyms(one: str, other: str) -> None:
    names = Pseudonyms(KEY)
    assume(one != other)
    assert names.name(one, TOPIC) != names.name(other, TOPIC)
    assert names.address(one) != names.address(other)


@given(NAMES)
def test_a_pseudonym_has_as_many_bytes_as_its_name(name: str) -> None:
    names = Pseudonyms(KEY)
    for pseudonym in (names.name(name, TOPIC), names.address(name), names.text(name)):
        assert utf8_bytes(pseudonym) == utf8_bytes(name)


@given(NAMES)
def test_the_same_key_gives_the_same_pseudonym(name: str) -> None:
    assert Pseudonyms(KEY).name(name, TOPIC) == Pseudonyms(KEY).name(name, Kind.GROUP)


@given(st.text(LETTERS, min_size=6, max_size=40))
def test_another_key_gives_another_pseudonym(name: str) -> None:
    assume(name not in KEPT_NAMES)
    first, second = Pseudonyms(KEY).name(name, TOPIC), Pseudonyms(KEY[::-1]).name(name, TOPIC)
    assert len({name, first, second}) == 3


@pytest.mark.parametrize("length", [1, 2])
def test_all_short_names_have_pseudonyms_of_their_own(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stay are nobody else's pseudonym: here some short ones, to try every name."""
    kept = frozenset({"a", "_", "..", "ab", "zz"})
    monkeypatch.setattr(room, "KEPT_NAMES", kept)
    names = Pseudonyms(KEY)
    everything = {"".join(n) for n in itertools.product(LETTERS, repeat=length)}
    found = {name: names.name(name, TOPIC) for name in everything}
    assert set(found.values()) == everything
    assert {name for name in everything & kept if found[name] != name} == set()


@given(st.lists(NAMES, unique=True, max_size=20))
def test_no_name_becomes_one_that_kafka_gives_a_meaning(several: list[str]) -> None:
    names = Pseudonyms(KEY)
    found = {names.name(name, TOPIC) for name in several}
    assert found & KEPT_NAMES == set(several) & KEPT_NAMES


@pytest.mark.parametrize("name", sorted(KEPT_NAMES))
def test_names_with_a_meaning_stay(name: str) -> None:
    assert Pseudonyms(KEY).name(name, TOPIC) == name


@given(NAMES)
def test_what_parts_a_name_stays_at_its_place(name: str) -> None:
    pseudonym = Pseudonyms(KEY).name(name, TOPIC)
    for mark in "=,:;/' \"\\{}[]()%*\n\u2028\x85":
        places = [i for i, c in enumerate(name) if c == mark]
        assert [i for i, c in enumerate(pseudonym) if c == mark] == places


def test_a_user_has_one_pseudonym_as_principal_and_as_name() -> None:
    names = Pseudonyms(KEY)
    alice = names.name("alice", Kind.CLIENT_ID)
    assert names.principal("User:alice") == f"User:{alice}"
    assert names.principal("User:ANONYMOUS") == "User:ANONYMOUS"
    kind, _, name = names.principal("Robot:alice").partition(":")
    assert (name, kind == "Robot") == (alice, False)
    assert names.principal("User:CN=a:b").count(":") == 2


@pytest.mark.parametrize(
    "connection",
    ["10.0.0.5:9092-10.0.0.77:51234-3", "0:0:0:0:0:0:0:1:9092-fe80:0:0:0:1:2:3:4%eth0:51234-0-17"],
)
def test_a_connection_keeps_its_ports_and_numbers(connection: str) -> None:
    found = Pseudonyms(KEY).connection(connection)
    before, after = _CONNECTION.fullmatch(connection), _CONNECTION.fullmatch(found)
    assert before is not None
    assert after is not None
    assert after.groups()[1:] == before.groups()[1:]
    assert before[1].rpartition(":")[2] == after[1].rpartition(":")[2] == "9092"
    for part in ("10.0.0", "fe80", "eth0"):
        assert part not in found


def test_a_host_has_one_pseudonym_on_both_sides_and_as_a_listener() -> None:
    names = Pseudonyms(KEY)
    found = names.connection("10.0.0.5:9092-10.0.0.5:51234-3")
    local, _, remote = found.partition("-")
    assert local.split(":")[0] == remote.split(":")[0]
    assert names.listener_address("10.0.0.5:9092") == local


def test_an_id_stays_an_id_and_those_of_kafka_stay() -> None:
    names = Pseudonyms(KEY)
    topic = "aHW-5XPbQ_iKkElhMFA2iA"
    assert names.uuid(topic) != topic
    assert room._uuid(names.uuid(topic)) is not None
    for of_kafka in ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"):
        assert names.uuid(of_kafka) == of_kafka
    assert "secret" not in names.uuid("no id but a secret text")


@pytest.mark.parametrize(
    ("version", "begin"),
    [("4.1.0", "4.1.0"), ("7.5.1-ccs", "7.5.1-ccs"), ("3.7.2-acme7", "3.7.2"), ("acme", "")],
)
def test_a_version_keeps_its_numbers_and_loses_what_is_ones_own(version: str, begin: str) -> None:
    found = Pseudonyms(KEY).software_version(version)
    assert found.startswith(begin)
    assert "acme" not in found
    assert utf8_bytes(found) == utf8_bytes(version)


def test_the_key_is_shown_nowhere() -> None:
    names = Pseudonyms(KEY)
    names.name("alice", TOPIC)
    assert KEY.decode() not in repr(names)
    assert names.replaced == {TOPIC: 1}
