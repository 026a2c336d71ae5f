from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from spark_jobs.judge import causes
from spark_jobs.judge.causes.sensor_decisions import history_of

MODULES = sorted(module.name for module in pkgutil.iter_modules(causes.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    module = importlib.import_module(f"{causes.__name__}.{name}")
    failed, tried = doctest.testmod(module, extraglobs={"history_of": history_of})
    assert failed == 0, f"{failed} of {tried} examples of {name} fail"
