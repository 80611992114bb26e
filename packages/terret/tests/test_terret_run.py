"""`terret run` in this process, with agents of folders that do what they are told."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from obedient_project import AGENT, REFUND, write_obedient

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    return write_obedient(tmp_path)


def mount(project: Path, entry: str) -> None:
    with (project / "harness.yml").open("a") as harness:
        harness.write(f"{entry}\n")


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def decisions(terret: Run, session: str) -> list[dict[str, object]]:
    _, out, _ = terret("sessions", "export", session, "--agent", "shop")
    events = rows(out)
    return [dict(each["data"]) for each in events if each["type"] == "tool/decision"]  # type: ignore[call-overload]


def test_only_the_answer_is_on_standard_output(terret: Run) -> None:
    """E-230: Also if a tool prints; what happens is on standard error, event by event."""
    code, out, err = terret("run", "shout {}")
    assert (code, out) == (0, "It gave: done\n")
    assert err.splitlines()[1:] == ["-> shout {}", "a tool prints", "<- done"]


def test_a_fresh_id_is_the_raw_one_and_can_be_continued(terret: Run) -> None:
    """E-231, E-491: People never see the key under which a session is stored."""
    _, _, err = terret("run", "one")
    session = err.removeprefix("session ").strip()
    assert ":" not in session
    assert terret("run", "--session", session, "two")[0] == 0
    _, shown, _ = terret("sessions", "show", session, "--agent", "shop")
    assert [line for line in shown.splitlines() if "user" in line] == [
        "  user      one",
        "  user      two",
    ]


def test_sessions_go_on_each_for_itself(terret: Run) -> None:
    """E-232"""
    for session, text in (("a", "one"), ("b", "other"), ("a", "two")):
        assert terret("run", "--session", session, text)[:2] == (0, f"You said: {text}\n")
    _, out, _ = terret("sessions", "list")
    turns = {line.split()[0]: line.split()[3] for line in out.splitlines()}
    assert turns == {"a": "2", "b": "1"}


def test_tenants_have_sessions_of_their_own(terret: Run) -> None:
    """E-223"""
    terret("run", "--session", "s", "one")
    terret("run", "--session", "s", "--tenant", "acme", "two")
    _, mine, _ = terret("sessions", "show", "s", "--agent", "shop")
    _, theirs, _ = terret("sessions", "show", "s", "--agent", "shop", "--tenant", "acme")
    assert ("one" in mine, "two" in mine) == (True, False)
    assert ("one" in theirs, "two" in theirs) == (False, True)
    code, _, err = terret("run", "--tenant", "a/b", "hi")
    assert (code, 'the tenant must not hold "/"' in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "there is no message"),
        (("  ",), "the message is blank"),
        (("--input", " "), "the message is blank"),
        (("a", "--input", "b"), "either as words or with --input"),
        (("--input",), "requires an argument"),
        (("--agent", "nobody", "hi"), 'there is no agent "nobody" (known: shop)'),
        (("--on-ask", "pause", "hi"), "'prompt', 'deny', 'allow'"),
    ],
)
def test_what_is_no_request_is_refused(terret: Run, words: tuple[str, ...], complaint: str) -> None:
    """E-233, E-234, E-235, E-570: Exit 2, and nothing on standard output or in the store."""
    code, out, err = terret("run", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert terret("sessions", "list")[1] == ""


def test_the_message_may_come_from_standard_input(
    terret: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-234: A `-` for itself is all that stands there; blank is no message."""
    monkeypatch.setattr("sys.stdin", StringIO("one\n\ntwo\n"))
    assert terret("run", "shop", "-")[1] == "You said: one\n\ntwo\n"
    monkeypatch.setattr("sys.stdin", StringIO("\n"))
    assert terret("run", "-")[0] == 2
    assert terret("run", "-", "hi")[1] == "You said: - hi\n"


def test_agents_of_folders_and_of_the_list_are_both_known(terret: Run, project: Path) -> None:
    """E-249, E-562, E-563: The ones have tenants, the others do not."""
    mount(project, "  agent-loop: {agents: [{id: desk, provider: obedient, model: m}]}")
    assert terret("run", "desk", "hi")[:2] == (0, "You said: hi\n")
    assert terret("run", "shop", "hi")[:2] == (0, "You said: hi\n")
    code, out, err = terret("run", "hi")
    assert (code, out) == (2, "")
    assert "(known: desk, shop)" in err
    code, _, err = terret("run", "--agent", "desk", "--tenant", "acme", "hi")
    assert (code, 'the agent "desk" has no tenants' in err) == (2, True)
    assert terret("run", "desk", "--session", "mine", "hi")[0] == 0
    assert terret("sessions", "show", "mine")[0] == 0


def test_one_name_in_two_places_names_both(terret: Run, project: Path) -> None:
    """E-562"""
    mount(project, "  agent-loop: {agents: [{id: shop, provider: obedient, model: m}]}")
    code, out, err = terret("run", "hi")
    assert (code, out) == (2, "")
    assert 'the agent name "shop" is given twice' in err
    assert str(Path("agents", "shop", "agent.yml")) in err
    assert "agent-loop" in err


def test_an_agent_that_cannot_start_is_refused(terret: Run, project: Path) -> None:
    """E-563: With what is wrong, and before the message is anywhere."""
    home = project / "agents" / "shop"
    (home / "agent.yml").write_text(AGENT.replace("maxTurns", "maxTurn"))
    code, out, err = terret("run", "hi")
    assert (code, out) == (2, "")
    assert 'did you mean "maxTurns"?' in err


def test_a_failed_turn_is_one_line(terret: Run) -> None:
    """E-237, E-495: The message is kept."""
    code, out, err = terret("run", "--session", "s", "fail")
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith("error: RuntimeError: no connection to the model")
    assert "fail" in terret("sessions", "show", "s", "--agent", "shop")[1]
    code, out, _ = terret("run", "--json", "fail")
    assert code == 1
    assert (rows(out)[0]["type"], rows(out)[-1]["type"]) == ("session", "error")


@pytest.mark.parametrize(
    ("order", "text", "stop"),
    [
        ("again", "Stopped after 3 model calls, the limit of a turn.", "max_turns"),
        (REFUND, "Stopped: a person denied refund.", "denied"),
    ],
)
def test_a_turn_that_was_stopped_says_so_where_the_answer_would_be(
    terret: Run, order: str, text: str, stop: str
) -> None:
    """E-238"""
    code, out, _ = terret("run", "--on-ask", "deny", order)
    assert (code, out) == (4, text + "\n")
    code, out, _ = terret("run", "--on-ask", "deny", "--json", order)
    assert code == 4
    assert rows(out)[-1] == {"type": "done", "text": text, "stopReason": stop}


@pytest.mark.parametrize(("on_ask", "decision"), [("allow", "allow"), ("deny", "deny")])
def test_what_was_said_before_decides_without_a_prompt(
    terret: Run, on_ask: str, decision: str
) -> None:
    """E-241, E-342: And it is recorded who said it."""
    _, _, err = terret("run", "--on-ask", on_ask, "--session", "s", REFUND)
    assert "Run it?" not in err
    [decided] = decisions(terret, "s")
    assert (decided["decision"], decided["source"]) == (decision, "human")
    _, out, _ = terret("sessions", "export", "s", "--agent", "shop")
    assert f'(--on-ask {on_ask})"' in out


def test_who_decides_needs_somebody_who_asks(terret: Run, project: Path) -> None:
    """E-241: Without the plugin an ask is a denial, which needs nobody."""
    mount(project, "  approval: null")
    for on_ask in ("allow", "prompt"):
        code, out, err = terret("run", "--on-ask", on_ask, "hi")
        assert (code, out) == (2, "")
        assert err == f"terret: --on-ask {on_ask} needs the plugin approval in harness.yml\n"
    code, out, _ = terret("run", "--on-ask", "deny", REFUND)
    assert (code, "there is no approval service" in out) == (0, True)


def test_the_json_of_a_turn_is_that_of_its_log(terret: Run) -> None:
    """E-236, E-564: Also of a session in which there were turns before."""
    terret("run", "--session", "s", 'add {"a": 1, "b": 2}')
    _, before, _ = terret("sessions", "export", "s", "--agent", "shop", "--protocol", "v1")
    code, live, err = terret("run", "--json", "--session", "s", "--on-ask", "allow", REFUND)
    assert (code, err) == (0, "")
    assert rows(live)[0] == {"type": "session", "sessionId": "s"}
    _, stored, _ = terret("sessions", "export", "s", "--agent", "shop", "--protocol", "v1")
    assert stored == before + live


EARLIER = """
from terret_agents import CREATED
from terret_context import plugin

@plugin(inject=("agents",))
def earlier(ctx):
    ctx.on(CREATED, lambda created: created.agent.send("TEXT", wake=False) and None)
"""


@pytest.mark.parametrize("text", ["earlier", "fail"])
def test_messages_that_wait_have_their_turns_first(terret: Run, project: Path, text: str) -> None:
    """E-002, E-494, E-498: What is shown is the turn of the message, also if another one failed."""
    (project / "earlier.py").write_text(EARLIER.replace("TEXT", text))
    mount(project, "  earlier: {use: ./earlier.py}")
    code, out, err = terret("run", "--json", "--session", "s", "mine")
    assert (code, err) == (0, "")
    kinds = [each["type"] for each in rows(out)]
    assert kinds == ["session", "budget:check", "loop:done", "done"]
    assert rows(out)[-1]["text"] == "You said: mine"
    _, shown, _ = terret("sessions", "show", "s", "--agent", "shop")
    assert [line for line in shown.splitlines() if "user " in line] == [
        f"  user      {text}",
        "  user      mine",
    ]


def test_a_message_that_is_taken_back_has_a_turn_of_two_events(terret: Run, project: Path) -> None:
    """E-126, E-236, E-243: Interrupted while an earlier message has its turn."""
    (project / "earlier.py").write_text(EARLIER.replace("TEXT", "interrupt {}"))
    mount(project, "  earlier: {use: ./earlier.py}")
    code, out, err = terret("run", "--json", "--session", "s", "mine")
    assert (code, rows(out)) == (
        130,
        [{"type": "session", "sessionId": "s"}, {"type": "error", "error": "aborted: user"}],
    )
    assert err.startswith("error: cancelled before the turn of the message\n")
    code, out, err = terret("run", "mine")
    assert (code, out) == (130, "")
    first, *others = err.splitlines()
    assert others == [
        "messages from before have their turns first",
        "error: cancelled before the turn of the message",
        f'go on with: terret run --{first} "..."',  # --session and its id
    ]
