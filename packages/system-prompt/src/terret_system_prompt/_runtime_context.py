"""Changing facts, told at the tail of the conversation instead of in the system text."""

from terret_llm import Message, PluginSource, create_user_message
from terret_sessions import Session

from ._assembly import Assembly
from ._render import render_contexts

_PLUGIN = "system-prompt"
_HEADING = "Runtime context. It replaces any earlier one."
_CLEARED = "The earlier runtime context no longer holds; there is none now."


class RuntimeContext:
    """Knows which snapshot of the runtime context the model of one session sees.

    A fold over the log: nothing is remembered that was not logged, so a message that was refused
    or taken away by compaction is due again.
    """

    def __init__(self) -> None:
        self._rewrites = -1
        self._read = 0
        self._seen: str | None = None

    def due(self, assembly: Assembly, session: Session) -> Message | None:
        """Returns the message that belongs into an entering batch, or `None`.

        It is due when the text differs from the snapshot the model sees, and once when there is
        nothing to tell any more. Add it to batches that are not empty without it. Costs one look
        at each new message. Raises `PromptReferenceError` as `render` does.
        """
        self._catch_up(session)
        facts = render_contexts(assembly)
        if facts:
            text = f"{_HEADING}\n\n{facts}"
        else:
            text = _CLEARED
            if self._seen is None:
                return None
        if text == self._seen:
            return None
        names = tuple(fact.name for fact in assembly.contexts)
        source = PluginSource(_PLUGIN, form="snapshot", sections=names)
        return create_user_message(text, source=source)

    def _catch_up(self, session: Session) -> None:
        messages = session.derive_messages()
        if session.rewrites != self._rewrites:
            self._rewrites, self._read, self._seen = session.rewrites, 0, None
        for index in range(self._read, len(messages)):
            if _is_snapshot(messages[index]):
                self._seen = messages[index].text
        self._read = len(messages)


def _is_snapshot(message: Message) -> bool:
    match message.source:
        case PluginSource(plugin=plugin, form=form):
            return plugin == _PLUGIN and form == "snapshot"
    return False
