from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.anonymize import permutation
from spark_jobs.anonymize.permutation import permuted

SPACES = [(1,), (2,), (65,), (3, 4), (2, 1, 5), (7, 7, 7), (1, 40), (2, 2, 2, 2, 2, 2)]


def images(bases: tuple[int, ...], key: bytes) -> list[tuple[int, ...]]:
    return [
        tuple(permuted(key, b"d", digits, bases))
        for digits in itertools.product(*map(range, bases))
    ]


@pytest.mark.parametrize("bases", SPACES, ids=str)
def test_every_sequence_is_the_image_of_one(bases: tuple[int, ...]) -> None:
    everything = set(itertools.product(*map(range, bases)))
    assert set(images(bases, b"key")) == everything


@pytest.mark.parametrize("bases", SPACES, ids=str)
def test_every_sequence_is_the_image_of_one_in_the_network_too(
    bases: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permutation, "FEW_MAX", 0)
    everything = set(itertools.product(*map(range, bases)))
    assert set(images(bases, b"key")) == everything


def test_another_key_or_domain_is_another_permutation() -> None:
    digits, bases = [1, 2, 3, 4, 5, 6, 7, 8], [65] * 8
    found = {
        tuple(permuted(key, domain, digits, bases))
        for key in (b"a", b"b", b"c")
        for domain in (b"name", b"address")
    }
    assert len(found) == 6


@given(st.lists(st.integers(1, 70_000), max_size=40).flatmap(
    lambda bases: st.tuples(
        st.just(bases), st.tuples(*(st.integers(0, base - 1) for base in bases))
    )
))  # fmt: skip
def test_an_image_has_digits_of_the_same_bases(space: tuple[list[int], tuple[int, ...]]) -> None:
    bases, digits = space
    image = permuted(b"key", b"", digits, bases)
    assert len(image) == len(bases)
    assert all(digit in range(base) for digit, base in zip(image, bases, strict=True))


def test_few_sequences_are_mixed_evenly() -> None:
    """Of one of ten, each of ten images comes about as often, over many keys."""
    found = [permuted(b"%d" % key, b"", (3,), (10,))[0] for key in range(1000)]
    counts = [found.count(image) for image in range(10)]
    assert min(counts) > 60
    assert max(counts) < 150
