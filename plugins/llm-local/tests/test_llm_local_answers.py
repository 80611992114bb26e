import pytest

from terret_plugin_llm_local._answers import answer_grammar, fits_a_sentence, quotation
from terret_plugin_llm_local._turns import Called, Turn


def turn_of(request: str) -> Turn:
    return Turn(request, None, None, "")


@pytest.mark.parametrize(
    ("text", "fits"),
    [("42", True), ("", False), ("two\nlines", False), ("x" * 121, False)],
)
def test_a_short_line_fits_a_sentence(text: str, fits: bool) -> None:
    assert fits_a_sentence(Called("add", text, is_error=False)) is fits


def test_an_error_does_not_fit_a_sentence() -> None:
    assert not fits_a_sentence(Called("add", "Error: no", is_error=True))


def test_the_grammar_ends_with_the_result_and_a_full_stop() -> None:
    root = answer_grammar(turn_of("What is 17 + 25?"), Called("add", "42", is_error=False))
    assert root.splitlines()[0].endswith('"42" "."')
    assert '("25 ")?' in root


def test_a_result_that_ends_like_a_sentence_gets_no_second_full_stop() -> None:
    root = answer_grammar(turn_of("Greet Bob"), Called("greet", 'Hello "Bob"!', is_error=False))
    assert root.splitlines()[0].endswith(r'"Hello \"Bob\"!"')


def test_the_answer_to_a_follow_up_has_no_words_of_it() -> None:
    root = answer_grammar(turn_of("And plus 100?"), Called("add", "140", is_error=False))
    assert root == 'root ::= "The result is " "140" "."'


@pytest.mark.parametrize(
    ("called", "text"),
    [
        (Called("read", "a\nb", is_error=False), "read returned:\n\na\nb"),
        (Called("read", "", is_error=False), "read has run and returned nothing."),
        (Called("read", "Error: no file", is_error=True), "read failed: no file"),
        (Called("read", "x" * 3000, is_error=False), f"read returned:\n\n{'x' * 2000}…"),
    ],
)
def test_what_fits_no_sentence_is_quoted(called: Called, text: str) -> None:
    assert quotation(called) == text
