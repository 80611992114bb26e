import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_plugin_llm_local._spans import Number, numbers, phrases, quotations
from terret_plugin_llm_local._words import stems

WEATHER = stems("get_weather Get the weather forecast for a city.")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is 17 + 25?", [17, 25]),
        ("What is 17+25?", [17, 25]),
        ("10 minus 3", [10, 3]),
        ("10 - 3 and 10-3", [10, 3, 10, 3]),
        ("And minus 2?", [-2]),
        ("add 7 and -2", [7, -2]),
        ("2.5 and 1,234.5, then 3,4", [2.5, 1234.5, 3, 4]),
        ("a 6-sided dice", [6]),
        ("order A-1042 and B552", []),
        ("twenty-five plus three", []),
    ],
)
def test_numbers_are_numerals_with_their_sign(text: str, found: list[Number]) -> None:
    assert numbers(text) == found


def test_numbers_in_words_count_where_numerals_are_too_few() -> None:
    assert numbers("twenty-five plus 3", at_least=2) == [25, 3]
    assert numbers("one of them is 3", at_least=1) == [3]


@given(st.lists(st.integers(-(10**9), 10**9), max_size=5))
def test_every_number_of_a_list_is_found_again(values: list[int]) -> None:
    assert numbers(", ".join(map(str, values))) == values


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Play "Blue in Green" and "So What"', ["Blue in Green", "So What"]),
        ("Search for 'good night' please", ["good night"]),
        ("Say \u201cgood night\u201d", ["good night"]),
        ("Don't tell John's mother", []),
        ("Count these words: a b c", ["a b c"]),
    ],
)
def test_what_is_quoted_or_follows_a_colon_is_found(text: str, found: list[str]) -> None:
    assert quotations(text) == found


def test_phrases_leave_out_words_of_the_tool_and_little_words_at_their_ends() -> None:
    assert phrases("What is the weather in Buenos Aires?", WEATHER) == [
        "Buenos",
        "Buenos Aires",
        "Aires",
    ]


def test_phrases_do_not_cross_punctuation() -> None:
    assert "Oslo Bergen" not in phrases("Show me Oslo, Bergen", WEATHER)


def test_the_verb_of_a_request_starts_a_phrase_only_if_there_is_nothing_else() -> None:
    assert phrases("Open notes.txt", frozenset()) == ["notes.txt"]
    assert phrases("Paris", frozenset()) == ["Paris"]


@given(st.text(max_size=80))
def test_every_span_stands_in_the_text(text: str) -> None:
    words = " ".join(text.split())
    for span in quotations(text):
        assert span in text
    for phrase in phrases(text, frozenset()):
        assert all(word in words for word in phrase.split())
