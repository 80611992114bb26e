"""`terret sessions` for agents in folders, whose sessions have keys."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from obedient_project import REFUND, write_obedient

Run = Callable[..., tuple[int, str, str]]
SHOP = ("--agent", "shop")


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    return write_obedient(tmp_path, "shop", "desk")


def store(project: Path) -> dict[Path, bytes]:
    files = (project / ".terret" / "sessions").rglob("*.jsonl")
    return {path: path.read_bytes() for path in files}


def cut(project: Path, type: str) -> None:
    """Ends all logs right after the first event of a type, as a crash would."""
    for path, text in store(project).items():
        rows = text.splitlines(keepends=True)
        end = next(at for at, row in enumerate(rows) if json.loads(row).get("type") == type)
        path.write_bytes(b"".join(rows[: end + 1]))


def test_the_list_is_that_of_a_tenant_with_the_ids_people_gave(terret: Run) -> None:
    """E-225, E-491"""
    terret("run", *SHOP, "--session", "one", "hi")
    terret("run", *SHOP, "--session", "two", "--tenant", "acme", "hi")
    terret("run", "--agent", "desk", "--session", "one", "hi")
    code, out, err = terret("sessions", "list")
    assert (code, [line.split()[:2] for line in out.splitlines()]) == (
        0,
        [["one", "desk"], ["one", "shop"]],
    )
    assert err == "there are sessions of other tenants (--tenant): acme\n"
    assert terret("sessions", "list", "shop", "--tenant", "acme")[1].startswith("two  shop")
    assert terret("sessions", "list", *SHOP)[1].startswith("one  shop")


def test_an_id_is_that_of_an_agent_or_that_of_the_store(terret: Run) -> None:
    """E-564"""
    terret("run", *SHOP, "--session", "one", "hi")
    code, shown, _ = terret("sessions", "show", "one", *SHOP)
    assert (code, shown.startswith("session one  ")) == (0, True)
    assert terret("sessions", "show", "default:production:shop:one")[1] == shown
    code, _, err = terret("sessions", "show", "one")
    assert (code, "(agents in folders: --agent NAME with the id)" in err) == (2, True)
    code, _, err = terret("sessions", "show", "one", "--agent", "desk")
    assert (code, 'no session "one" of agent "desk"' in err) == (2, True)
    assert terret("sessions", "show", "one", "--tenant", "acme")[0] == 2


def test_what_nobody_decided_is_listed_and_told_to_the_next_chat(
    terret: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-248, E-344: An item outlives its process as a note; the call did not run."""
    terret("run", *SHOP, "--session", "s", "--on-ask", "deny", REFUND)
    cut(project, "approval/asked")
    before = store(project)
    _, listed, _ = terret("sessions", "list")
    assert listed.split()[:7] == ["s", "shop", "waiting", "1", "turn", "1", "open"]
    _, shown, _ = terret("sessions", "show", "s", *SHOP)
    assert 'open item  refund {"order":"A-77","amount":250}' in shown
    assert store(project) == before
    with (project / "lines").open("w+") as lines:
        lines.write("hi\n")
        lines.seek(0)
        monkeypatch.setattr("sys.stdin", lines)
        code, _, err = terret("chat", *SHOP, "--session", "s")
    assert code == 0
    assert 'nobody had decided about this when the program ended: refund {"order"' in err
    assert terret("sessions", "list")[1].split()[:5] == ["s", "shop", "completed", "2", "turns"]


def test_reading_changes_nothing(terret: Run, project: Path) -> None:
    """E-564: Not a byte of the store."""
    terret("run", *SHOP, "--session", "s", "hi")
    cut(project, "turn/start")
    before = store(project)
    for words in (["list"], ["show", "s", *SHOP], ["export", "s", *SHOP]):
        assert terret("sessions", *words)[0] == 0
    assert terret("sessions", "export", "s", *SHOP, "--protocol", "v1")[0] == 0
    assert store(project) == before


def test_a_fork_is_a_session_of_the_same_agent_and_goes_on_alone(terret: Run) -> None:
    """E-566, E-094"""
    terret("run", *SHOP, "--session", "s", "one")
    terret("run", *SHOP, "--session", "s", "two")
    assert terret("sessions", "fork", "s", *SHOP, "--as", "copy")[:2] == (0, "copy\n")
    assert terret("run", *SHOP, "--session", "copy", "three")[0] == 0
    _, out, _ = terret("sessions", "export", "copy", *SHOP, "--protocol", "v1")
    assert [row["text"] for row in map(json.loads, out.splitlines()) if row["type"] == "done"] == [
        "You said: three"
    ]
    assert terret("sessions", "fork", "s", *SHOP, "--as", "copy")[0] == 2
    code, fresh, _ = terret("sessions", "fork", "s", *SHOP)
    assert terret("sessions", "show", fresh.strip(), *SHOP)[0] == code == 0


def test_a_deleted_session_is_gone_and_an_unknown_one_refused(terret: Run, project: Path) -> None:
    """E-565"""
    terret("run", *SHOP, "--session", "s", "hi")
    assert terret("sessions", "delete", "s", *SHOP) == (0, "", "deleted s\n")
    assert store(project) == {}
    assert terret("sessions", "delete", "s", *SHOP)[0] == 2
