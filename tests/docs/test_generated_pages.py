"""Pages that are made from the sources are as their sources would make them now."""

from __future__ import annotations

import pytest
from pydantic_settings import BaseSettings

from docs.generate.__main__ import DOCS, PAGES
from docs.generate.configuration_page import meanings, settings_classes


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text("utf-8")
    assert written == PAGES[name](), f"docs/{name} is out of date: run `make reference`"


@pytest.mark.parametrize("cls", settings_classes(), ids=lambda cls: cls.__name__)
def test_every_setting_says_what_it_means(cls: type[BaseSettings]) -> None:
    assert list(meanings(cls)) == list(cls.model_fields)
