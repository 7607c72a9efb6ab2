"""Finding an entry by any spelling."""

import pytest

from tailcast.catalog.names import find_entry, name_index, plain_name
from tailcast.errors import CatalogError

INDEX = name_index({"card-40gb": ["c-40"], "card-80gb": ["c-80"], "plate": []}, plain_name)


@pytest.mark.parametrize("name", ["card-80gb", "CARD 80GB", "Card_80gb", " c_80 ", "card--80gb"])
def test_case_and_punctuation_do_not_matter(name: str) -> None:
    assert find_entry("card", name, plain_name(name), INDEX) == "card-80gb"


def test_the_beginning_of_several_names_is_ambiguous() -> None:
    with pytest.raises(CatalogError, match="card 'card' is ambiguous: card-40gb, card-80gb"):
        find_entry("card", "card", "card", INDEX)


def test_the_beginning_of_one_name_is_a_hint() -> None:
    index = name_index({"plate-9": []}, plain_name)
    with pytest.raises(CatalogError, match=r"no card 'plate'; did you mean 'plate-9'\?"):
        find_entry("card", "plate", "plate", index)


def test_an_unknown_name_gets_the_nearest_or_all() -> None:
    with pytest.raises(CatalogError, match=r"no card 'plat'; did you mean 'plate'\?"):
        find_entry("card", "plat", "plat", INDEX)
    with pytest.raises(CatalogError, match="no card 'zz'; known: card-40gb, card-80gb, plate"):
        find_entry("card", "zz", "zz", INDEX)


def test_two_entries_cannot_share_a_name() -> None:
    with pytest.raises(CatalogError, match="'One' names both 'one' and 'two'"):
        name_index({"one": [], "two": ["One"]}, plain_name)


def test_a_long_catalogue_is_not_listed_whole() -> None:
    index = {f"entry-{n}": f"entry-{n}" for n in range(60)}
    with pytest.raises(CatalogError, match=r"and 35 more \(tailcast catalog\)\. Or a file\.$"):
        find_entry("card", "x" * 900, "x" * 900, index, otherwise=" Or a file.")


def test_a_very_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(CatalogError) as refused:
        find_entry("card", "x" * 9000, "x" * 9000, INDEX)
    assert len(str(refused.value)) < 300
