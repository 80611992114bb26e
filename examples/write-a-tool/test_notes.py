"""What the model gets from the tools, and what it is told when it calls them wrongly."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from notes import notes

from terret_testing import Harness, Part, call, say, script

Boot = Callable[..., AbstractAsyncContextManager[Harness]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "milk.txt").write_text("buy two bottles", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (call("read_note", name="milk"), 'result: {"name":"milk","text":"buy two bottles"}'),
        (call("read_note", name="milk", limit=3), 'result: {"name":"milk","text":"buy"}'),
        (call("write_note", name="tea", text="green"), "result: written"),
        (call("count_words"), "result: 3"),
        (call("search_notes", query="milk"), "result: found nothing for {'query': 'milk'}"),
    ],
)
async def test_results_are_shown_to_the_model(
    harness: Boot, folder: Path, asked: Part, line: str
) -> None:
    plugins = [(notes, {"folder": folder})]
    async with harness(plugins=plugins, model=script(asked, say("Done."))) as h:
        await h.send("Go on.")
        assert h.transcript[2] == line


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (call("read_note"), "/name"),
        (call("read_note", name="milk", limit=0), "/limit"),
        (call("write_note", name="tea", text="x", mode="other"), "/mode"),
        (call("read_note", name="tea"), 'there is no note "tea"'),
        (call("read_note", name="../keys"), "a note has a plain name"),
        (call("search_notes", query=""), "/query"),
    ],
)
async def test_a_wrong_call_comes_back_as_an_error_that_names_the_place(
    harness: Boot, folder: Path, asked: Part, complaint: str
) -> None:
    plugins = [(notes, {"folder": folder})]
    async with harness(plugins=plugins, model=script(asked, say("Sorry."))) as h:
        assert await h.send("Go on.") == "Sorry."
        assert h.transcript[2].startswith("error: ")
        assert complaint in h.transcript[2]
