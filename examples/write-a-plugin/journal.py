"""Keeps a journal of what was asked."""

from collections.abc import Iterator
from pathlib import Path

from terret_context import Config, Context, plugin
from terret_llm import Message
from terret_sessions import EVENT, Session, SessionEvent, Sessions
from terret_system_prompt import SystemPrompt


class JournalConfig(Config):
    """Configuration of the entry `journal`."""

    path: Path = Path("journal.txt")
    """Where the journal is kept."""


@plugin(config=JournalConfig, inject=(Sessions, SystemPrompt))
def journal(ctx: Context, config: JournalConfig) -> Iterator[None]:
    """Writes down each prompt, and tells the model that it is written down."""
    with config.path.open("a", encoding="utf-8") as file:

        def note(session: Session, event: SessionEvent) -> None:
            if isinstance(event.view, Message) and event.view.source.kind == "user":
                print(f"{session.id}: {event.view.text}", file=file, flush=True)

        ctx.on(EVENT, note)
        ctx[SystemPrompt].section("journal", 150, "What the user asks is written down.")
        yield  # the plugin is up; when it is unloaded, the file is closed
