import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_sessions import SessionKey

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=100)
SEGMENT = TEXT.filter(lambda text: not set(text) & set("/*?[]:"))
KEYS = st.builds(SessionKey, SEGMENT, SEGMENT, SEGMENT, TEXT)


@given(KEYS, KEYS)
def test_distinct_keys_have_distinct_ids_and_ids_give_the_key_back(
    one: SessionKey, other: SessionKey
) -> None:
    assert SessionKey.parse(str(one)) == one
    assert (str(one) == str(other)) == (one == other)
    assert set(str(one)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%:"
    )


def test_an_id_is_readable_where_its_parts_are() -> None:
    assert str(SessionKey("default", "production", "shop", "a b~")) == (
        "default:production:shop:a%20b%7E"
    )


@pytest.mark.parametrize(
    "text",
    ["a", "a:b:c", "a:b:c:d:e", "a:b:c:%7e", "a:b:c:x y", "a:b:c:", "a:%2F:c:d", "%ff:b:c:d"],
)
def test_other_ids_are_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match=r"session key|decode|must not|characters"):
        SessionKey.parse(text)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("", "e", "a", "1"), "tenant has 1 to 100 characters, not 0"),
        (("t" * 101, "e", "a", "1"), "not 101"),
        (("t", "pro/d", "a", "1"), 'environment must not hold "/"'),
        (("t", "e", "a*", "1"), 'agent must not hold "\\*"'),
        (("t", "e", "a", "1\n"), r"session id must not hold U\+000A"),
        (("t", "e", "a", "1" * 201), "session id has 1 to 200 characters"),
    ],
)
def test_parts_that_could_be_mistaken_are_refused(parts: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SessionKey(*parts)
