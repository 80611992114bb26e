"""Tools of several kinds: typed ones, a plain function, one with a foreign schema."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
from pydantic import Field

from terret_context import Config, Context, plugin
from terret_llm import HarnessError
from terret_tools import Tool, ToolExec, ToolRun, Tools, tool


@dataclass
class Note:
    """What `read_note` returns; the model sees it as JSON."""

    name: str
    text: str


def note_tools(folder: Path) -> list[Tool]:
    """Makes the tools for the notes of one folder."""

    @tool(is_concurrency_safe=lambda arguments: True)
    async def read_note(name: str, limit: Annotated[int, Field(ge=1)] = 1000) -> Note:
        """Reads a note.

        Args:
            name: What the note is called.
            limit: How many characters are enough.
        """
        path = anyio.Path(folder / f"{name}.txt")
        if not await path.exists():
            raise HarnessError(f'there is no note "{name}"', "NO_SUCH_NOTE")
        return Note(name, (await path.read_text("utf-8"))[:limit])

    @tool
    async def write_note(name: str, text: str, mode: Literal["new", "replace"] = "new") -> str:
        """Writes a note."""
        path = anyio.Path(folder / f"{name}.txt")
        if mode == "new" and await path.exists():
            raise HarnessError(f'there is a note "{name}" already', "NOTE_EXISTS")
        await path.write_text(text, "utf-8")
        return "written"

    @tool
    def count_words(run: ToolRun) -> int:
        """Counts the words of all notes."""
        total = 0
        for path in sorted(folder.glob("*.txt")):
            if run.cancelled:  # a thread cannot be interrupted: it has to look
                break
            total += len(path.read_text("utf-8").split())
            time.sleep(0)
        return total

    async def forward(run: ToolRun, /, **arguments: object) -> str:
        return f"found nothing for {arguments}"

    search = Tool(
        name="search_notes",
        description="Searches the notes.",
        parameters={  # any JSON Schema whose root is an object
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1}},
            "required": ["query"],
            "additionalProperties": False,
        },
        execute=forward,
    )
    return [read_note, write_note, count_words, search]


class NotesConfig(Config):
    """Configuration of the entry `notes`."""

    folder: Path = Path("notes")
    """Where the notes are."""


@plugin(config=NotesConfig, inject=(Tools,))
def notes(ctx: Context, config: NotesConfig) -> None:
    """Offers notes to the model, and keeps it inside of their folder."""
    for each in note_tools(config.folder):
        ctx[Tools].register(each)

    def stay_inside(call: ToolExec) -> str | None:
        arguments = call.plain_arguments()
        name = arguments.get("name", "") if isinstance(arguments, dict) else ""
        outside = "/" in str(name) or ".." in str(name)
        return "a note has a plain name" if outside else None

    ctx[Tools].guard(stay_inside)
