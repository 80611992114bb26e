"""Approvals and questions on standard error and standard input, where there is no terminal."""

import json
import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from obedient_project import REFUND, write_obedient

Answering = Callable[..., tuple[int, str, str]]

PROMPT = "Run it? [y/n/a/e, ? explains] "
WHICH = 'system_ask_user {"question": "Which?", "options": ["red", "blue"]}'


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    return write_obedient(tmp_path)


@pytest.fixture
def answering(
    terret: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Answering:
    """Runs a message, with lines that somebody types."""

    def run(message: str, *lines: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", StringIO("".join(f"{line}\n" for line in lines)))
        return terret("run", "--session", "s", "--on-ask", "prompt", *flags, message)

    return run


def test_a_call_is_shown_and_runs_when_somebody_says_so(answering: Answering) -> None:
    """E-341: What is asked never touches standard output."""
    code, out, err = answering(REFUND, "perhaps", "y")
    assert (code, out) == (0, 'It gave: {"order": "A-77", "amount": 250}\n')
    assert "\nshop wants to run refund (matched rule 'careful')\n    order   A-77\n" in err
    assert err.count(PROMPT) == 2
    assert "n TEXT` tells the model why" in err


def test_a_call_that_is_denied_ends_the_turn_and_the_model_reads_why(answering: Answering) -> None:
    """E-341, E-238"""
    code, out, err = answering(REFUND, "n too much")
    assert (code, out) == (4, "Stopped: a person denied refund.\n")
    assert "human denied: too much" in err


def test_an_edit_that_cannot_be_is_asked_again(answering: Answering) -> None:
    """E-341, E-350, E-351: The item stays open until an edit fits, and is shown again then."""
    edits = ("e", "amount=much", "e", "nonsense", "e", "", "e", '{"order": "B-1", "amount": 7}')
    code, out, err = answering(REFUND, *edits, "y")
    assert (code, "order" in out and "B-1" in out) == (0, True)
    assert "Not possible: invalid arguments for refund:\n- /amount" in err
    assert "Not possible: that is neither NAME=VALUE nor a JSON object" in err
    assert err.count("shop wants to run refund") == 2


def test_a_call_may_run_from_now_on(answering: Answering) -> None:
    """E-341: The same call of the session is not asked about again."""
    code, _, err = answering(REFUND, "a")
    assert (code, err.count(PROMPT)) == (0, 1)
    code, _, err = answering(REFUND)
    assert (code, err.count(PROMPT)) == (0, 0)


def test_the_end_of_the_input_decides_nothing(answering: Answering) -> None:
    """E-334: The call is denied, and the model goes on."""
    code, out, err = answering(REFUND)
    assert (code, "nobody could be asked" in out) == (0, True)
    assert PROMPT in err


def test_an_answer_that_never_comes_is_a_denial(
    terret: Answering, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-335: The prompt is left, whatever becomes of the one who was asked."""
    with (project / "harness.yml").open("a") as harness:
        harness.write("  approval: {timeoutSeconds: 0.01}\n")
    reading, writing = os.pipe()
    with open(reading) as stdin, open(writing, "w"):
        monkeypatch.setattr("sys.stdin", stdin)
        code, out, err = terret("run", "--on-ask", "prompt", REFUND)
    assert (code, "nobody answered in time" in out) == (0, True)
    assert f"{PROMPT}\nnobody answered in time\n" in err


def test_long_arguments_can_be_seen_whole_and_do_no_harm(answering: Answering) -> None:
    """E-341: No line is hidden for good, and none can hide another one."""
    order = "\\n".join([*map(str, range(50)), "\x1b[2J"])
    call = f"refund {json.dumps({'order': order, 'amount': 1})}"
    code, _, err = answering(call.replace("\\\\n", "\\n"), "v", "n")
    first, whole = err.split(PROMPT)[:2]
    assert "more lines: v shows them" in first
    assert ("49" in first, "49" in whole) == (False, True)
    assert ("\\u001b[2J" in whole, "\x1b[2J" in err) == (True, False)
    assert code == 4


@pytest.mark.parametrize(
    ("typed", "answer"), [(("2",), "blue"), (("", "green"), "green"), (("red",), "red")]
)
def test_a_question_is_asked_until_there_is_an_answer(
    answering: Answering, typed: tuple[str, ...], answer: str
) -> None:
    """E-371, E-375: A number is the option of that number; any text will do, but none will not."""
    code, out, err = answering(WHICH, *typed, flags=("--json",))
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, rows[-1]["text"]) == (0, f"It gave: {answer}")
    assert "\nshop asks: Which?\n  1  red\n  2  blue\nNumber or answer: " in err


def test_nobody_is_asked_where_somebody_said_so(terret: Answering) -> None:
    """E-373: The model goes on without an answer."""
    code, out, _ = terret("run", "--on-ask", "allow", WHICH)
    assert (code, "nobody replied" in out) == (0, True)
