from __future__ import annotations

from spark_jobs.wording.svg import RATE, inline_svg

SVG = (
    '<?xml version="1.0"?>\n<svg xmlns="x" viewBox="0 0 10 5.5" width="10">\n <defs>\n'
    '  <style type="text/css">*{{stroke-linejoin: round}}</style>\n </defs>\n'
    ' <g id="text_1">\n  <!-- {text} -->\n'
    '  <path d="M 1.2345 0.25" style="stroke: {rate}"/>\n'
    "  <text style=\"font: 9px 'DejaVu Sans', sans-serif; fill: {rate}\">{text}</text>\n"
    " </g>\n</svg>\n"
)


def inlined(text: str) -> str:
    return inline_svg(SVG.format(text=text, rate=RATE), "label")


def test_numbers_of_shapes_are_cut_to_tenths_and_text_is_not() -> None:
    svg = inlined("0.25")
    assert 'd="M 1.2 0.2"' in svg
    assert ">0.25</text>" in svg


def test_only_shapes_have_their_colours_named() -> None:
    svg = inlined(RATE)
    assert 'style="stroke: var(--rate)"' in svg
    assert f">{RATE}</text>" in svg


def test_fonts_ids_of_groups_comments_and_styles_are_the_pages() -> None:
    svg = inlined("a")
    assert svg.startswith('<svg viewBox="0 0 10 5.5" role="img" aria-label="label">')
    assert '<text style="font-size: 9px; fill: var(--rate)">a</text>' in svg
    for gone in ("<style", "<!--", "id=", "xmlns", "DejaVu"):
        assert gone not in svg
