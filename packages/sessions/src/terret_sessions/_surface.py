from collections.abc import Iterable

from terret_llm import Message, ToolResultBlock

from ._errors import SurfaceError
from ._event_types import event_type
from ._events import Replace, SessionEvent
from ._payloads import AssistantMessage, ToolResult


class Surface:
    """What the model currently sees: an ordered list of events, and how often it was replaced.

    A surface folds a log, or any window of one; a replacement that reaches out of the window is
    refused. `settled` is up to whoever reads the nodes: as many of them were read, and a
    replacement among those lowers it.
    """

    __slots__ = ("nodes", "replace_generation", "settled")

    def __init__(self) -> None:
        self.nodes: list[SessionEvent] = []
        self.replace_generation = 0
        self.settled = 0

    @property
    def seqs(self) -> tuple[int, ...]:
        """The seqs of the nodes, in the order the model sees them."""
        return tuple(event.seq for event in self.nodes)

    def plan(self, event: SessionEvent) -> slice | None:
        """The nodes `event` takes the place of; None if it is not on the surface.

        Changes nothing. Raises SurfaceError if the event may not do what it says.
        """
        operation = event.surface_op
        if not is_surface_type(event.type):
            if operation is not None or event.sources is not None:
                raise _refused(event, "not a surface type: no surfaceOp, no sourceEventSeqs")
            return None
        _check_sources(event)
        if operation == "append":
            return slice(len(self.nodes), len(self.nodes))
        if isinstance(operation, Replace):
            return self._plan_replace(event, operation)
        raise _refused(event, "a surface type needs a surfaceOp")

    def commit(self, event: SessionEvent, place: slice | None) -> None:
        """Apply what `plan` returned for this event, before any other change."""
        if place is None:
            return
        self.nodes[place] = (event,)
        if event.surface_op != "append":
            self.replace_generation += 1
            self.settled = min(self.settled, place.start)

    def _plan_replace(self, event: SessionEvent, operation: Replace) -> slice:
        first = self._position(event, operation.start)
        last = self._position(event, operation.end)
        if first > last:
            raise _refused(event, f"node {operation.start} stands after node {operation.end}")
        removed = self.nodes[first : last + 1]
        for node in removed:
            if event.sources is None or node.seq not in event.sources:
                raise _refused(event, f"its sources do not name node {node.seq}, which it removes")
        if isinstance(event.view, ToolResult):
            _check_rewrite(event, event.view, removed)
        return slice(first, last + 1)

    def _position(self, event: SessionEvent, seq: int) -> int:
        for position in range(len(self.nodes) - 1, -1, -1):  # what is replaced is mostly recent
            if self.nodes[position].seq == seq:
                return position
        raise _refused(event, f"there is no node {seq} on the surface")


def derive_messages(events: Iterable[SessionEvent]) -> tuple[Message, ...]:
    """The messages a model sees after these events, derived from scratch."""
    surface = Surface()
    for event in events:
        surface.commit(event, surface.plan(event))
    return tuple(
        message for node in surface.nodes if (message := derived_message(node)) is not None
    )


def derived_message(event: SessionEvent) -> Message | None:
    """The message of a surface event; None for an answer without content."""
    match event.view:
        case Message() as message:
            return message
        case ToolResult(message=message):
            return message
        case AssistantMessage(message=message) if message.content:
            return message
        case _:
            return None


def is_surface_type(name: str) -> bool:
    """Whether events of the type stand on the surface."""
    declared = event_type(name)
    return declared is not None and declared.surface


def is_append(event: SessionEvent) -> bool:
    """Whether the event was added to the surface, not put in the place of others."""
    return event.surface_op == "append"


def is_replacement(event: SessionEvent) -> bool:
    """Whether the event took the place of others; such copies are for the model only."""
    return isinstance(event.surface_op, Replace)


def _check_sources(event: SessionEvent) -> None:
    sources = event.sources
    if sources is None:
        return
    if not sources:
        if event.type != "assistant/message":
            raise _refused(event, "only an assistant/message may have an empty list of sources")
    elif sources.last >= event.seq:
        raise _refused(event, f"source {sources.last} is not an earlier event")


def _check_rewrite(event: SessionEvent, view: ToolResult, removed: list[SessionEvent]) -> None:
    old = removed[0].view
    if len(removed) != 1 or not isinstance(old, ToolResult):
        raise _refused(event, "a tool/result may replace exactly one other tool/result")
    if _without_content(old) != _without_content(view):
        raise _refused(event, "only the content of a tool/result may be rewritten")


def _without_content(view: ToolResult) -> ToolResult:
    block, message = view.block, view.message
    empty = ToolResultBlock(block.tool_call_id, (), block.is_error)
    bare = Message(message.id, message.role, (empty,), message.source)
    return ToolResult(view.turn, view.step, bare, view.error)


def _refused(event: SessionEvent, reason: str) -> SurfaceError:
    return SurfaceError(event.type, event.seq, reason)
