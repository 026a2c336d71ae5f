from __future__ import annotations

import unicodedata

from spark_jobs.anonymize.permutation import ADDRESS_LETTERS, NAME_LETTERS, Alphabet, alphabet_of


def alphabets() -> dict[str, Alphabet]:
    samples = [alphabet_of(c, NAME_LETTERS) for c in "aé日😀"]
    found = [*(each for each in samples if each is not None), ADDRESS_LETTERS]
    return {each.mark: each for each in found}


def test_every_character_has_its_place_and_the_bytes_of_the_others() -> None:
    assert alphabets().keys() == set("abcdh")
    for alphabet in alphabets().values():
        step = 1 if alphabet.size < 100_000 else 997
        characters = [alphabet.character(index) for index in range(0, alphabet.size, step)]
        assert len({len(c.encode("utf-8")) for c in characters}) == 1
        assert [alphabet.index(c) for c in characters] == list(range(0, alphabet.size, step))


def test_no_replaced_character_ends_a_word_a_line_or_a_name() -> None:
    for alphabet in alphabets().values():
        for index in range(min(alphabet.size, 70_000)):
            character = alphabet.character(index)
            assert not character.isspace()
            assert unicodedata.category(character) not in {"Zl", "Zp", "Cc", "Cs"}
            assert len(f"a{character}b".splitlines()) == 1
            assert character not in ",;:='\"\\{}[]()<>%*/|`$&#!~@?^+"


def test_an_address_gets_no_dash_which_parts_a_connection() -> None:
    assert ADDRESS_LETTERS.index("-") is None
    assert NAME_LETTERS.size == ADDRESS_LETTERS.size + 1 == 65
