"""The worked numbers in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from spark_jobs import quota

MODULES = [module.name for module in pkgutil.iter_modules(quota.__path__, "spark_jobs.quota.")]
WITHOUT_EXAMPLES = {
    f"spark_jobs.quota.{name}"
    for name in ("bucket_kernel", "compiled_rules", "constants", "kernels", "rate_kernel")
}


@pytest.mark.parametrize("name", sorted(set(MODULES) - WITHOUT_EXAMPLES))
def test_the_examples_of_a_module_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0, f"{name} has no example"
