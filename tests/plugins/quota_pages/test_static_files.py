from __future__ import annotations

from hashlib import sha256

from quota_pages.page import STATIC, static_file, static_version

ECHARTS_6_1_0 = "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5"
"""Of dist/echarts.common.min.js in the npm package."""


def test_the_chart_library_is_the_release_that_the_notice_names() -> None:
    content = static_file("echarts.common.min.js")
    assert content is not None
    assert sha256(content).hexdigest() == ECHARTS_6_1_0


def test_every_static_file_is_there_and_no_other_is_handed_out() -> None:
    assert all(static_file(name) and static_version(name) for name in STATIC)
    assert static_file("../page.py") is None
