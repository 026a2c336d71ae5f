"""The tests' object storage: one service for all of them, a bucket for each module."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.object_storage.moto_server import ObjectStorage, object_storage


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    with object_storage(tmp_path_factory.mktemp("moto")) as running:
        yield running


@pytest.fixture(scope="module")
def bucket(storage: ObjectStorage) -> Iterator[str]:
    """Return the name of a new bucket, which this process and what it starts are told of."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    storage.client().create_dir(name)
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in storage.environment().items():
            patch.setenv(variable, value)
        yield name
