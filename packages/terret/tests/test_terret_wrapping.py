"""Lines of streamed text on a terminal."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret._wrapping import Wrapping

texts = st.lists(st.sampled_from(["a", "bcd", "efghijkl", " ", "  ", "\n", "x" * 15, "é"]))


def wrapped(pieces: Sequence[str], width: int = 12) -> str:
    wrapping = Wrapping(lambda: width)
    return "".join([*map(wrapping.feed, pieces), wrapping.end()])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the quick brown fox", "the quick\nbrown fox"),
        ("exactly here it fits", "exactly here\nit fits"),
        ("one\n\n  two\n", "one\n\n  two\n"),
        ("see https://example.org/a/b now", "see\nhttps://example.org/a/b\nnow"),
        ("```\nlong line of some code\n```\nlong line of text", None),
        ("日本語 日本語", "日本語\n日本語"),
    ],
)
def test_lines_break_between_words_and_not_in_code(text: str, shown: str | None) -> None:
    code = "```\nlong line of some code\n```\nlong line of\ntext"
    assert wrapped([text]) == (shown or code)


@given(texts)
def test_pieces_make_no_difference_and_no_word_is_lost_or_broken(parts: list[str]) -> None:
    text = "".join(parts)
    shown = wrapped(parts)
    assert shown == wrapped([text])
    assert shown.split() == text.split()
    assert all(len(line) <= 12 or " " not in line.strip() for line in shown.split("\n"))


def test_a_word_is_shown_when_its_end_is_known() -> None:
    wrapping = Wrapping(lambda: 12)
    assert [wrapping.feed(piece) for piece in ("hel", "lo", " ", "wor")] == ["", "", "hello", ""]
    assert wrapping.end() == " wor"
