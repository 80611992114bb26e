from collections.abc import Callable, Iterator, Mapping

from terret_llm._blocks import ToolCallBlock
from terret_llm._chunks import BlockEnd, BlockStart, Chunk, ToolCallDelta
from terret_llm.wire import dump_json, exact, object_text, without_lone_escapes

_RANDOM_LENGTH = 20
"""Ids of this length are random; servers that count, or name the tool, write shorter ones."""


class _Call:
    __slots__ = ("arguments", "id", "index", "name", "returned", "wire_id")

    def __init__(self, index: int, id: str, wire_id: str, name: str) -> None:
        self.index = index
        self.id = id
        self.wire_id = wire_id
        self.name = name
        self.arguments: list[str] = []
        self.returned: Mapping[str, object] | None = None


class ToolCalls:
    """Assembles the tool calls of one answer from deltas of every dialect of the protocol."""

    def __init__(
        self,
        new_index: Callable[[], int],
        new_id: Callable[[], str],
        is_used: Callable[[str], bool],
    ) -> None:
        self._new_index = new_index
        self._new_id = new_id
        self._is_used = is_used
        self._calls: list[_Call] = []
        self._by_wire_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, entries: object, out: list[Chunk]) -> None:
        """Add the chunks of a `tool_calls` list; entries of no known shape are skipped."""
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                self._entry(entry, out)

    def ends(self) -> list[Chunk]:
        """The finished blocks; blank arguments are `{}`, invalid ones stay as they came."""
        return [BlockEnd(call.index, _block(call)) for call in self._calls]

    def returned(self) -> Iterator[tuple[int, Mapping[str, object]]]:
        """By index of a call, the fields that the server wants back with it."""
        for call in self._calls:
            if call.returned:
                yield call.index, {"extra_content": call.returned}

    def _entry(self, entry: Mapping[str, object], out: list[Chunk]) -> None:
        function = entry.get("function")
        if not isinstance(function, Mapping):
            function = {}
        name, wire_id = _text(function.get("name")), _text(entry.get("id"))
        call = self._continued(entry.get("index"), wire_id, name)
        if call is None:
            call = self._open(entry.get("index"), wire_id, name)
            out.append(BlockStart(call.index, "tool-call"))
            new_name = name
        else:
            new_name = "" if call.name else name
            call.name = call.name or name
        extra = entry.get("extra_content")
        if isinstance(extra, Mapping):
            call.returned = exact(extra)
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = dump_json(arguments).decode()
        piece = arguments if isinstance(arguments, str) else ""
        if piece:
            call.arguments.append(piece)
        if piece or new_name:
            out.append(ToolCallDelta(call.index, call.id, new_name or None, piece))

    def _continued(self, wire_index: object, wire_id: str, name: str) -> _Call | None:
        """The call that a delta goes on with, or None if it opens one.

        Some servers give all calls index 0: a new id with a name opens a call. Others give each
        delta a new id: without a name it does not. Some send no index at all: then the id decides,
        and without an id the last call goes on, until a further name comes.
        """
        if isinstance(wire_index, int):
            call = self._by_wire_index.get(wire_index)
            other = call is not None and wire_id and call.wire_id and wire_id != call.wire_id
            return None if other and name else call
        if wire_id:
            return next((call for call in self._calls if call.wire_id == wire_id), None)
        last = self._calls[-1] if self._calls else None
        return None if last is not None and name and last.arguments else last

    def _open(self, wire_index: object, wire_id: str, name: str) -> _Call:
        own_id = self._new_id() if self._is_taken(wire_id) else wire_id
        call = _Call(self._new_index(), own_id, wire_id, name)
        self._calls.append(call)
        if isinstance(wire_index, int):
            self._by_wire_index[wire_index] = call
        return call

    def _is_taken(self, wire_id: str) -> bool:
        if not wire_id or any(call.id == wire_id for call in self._calls):
            return True
        return len(wire_id) < _RANDOM_LENGTH and self._is_used(wire_id)


def _block(call: _Call) -> ToolCallBlock:
    arguments = without_lone_escapes("".join(call.arguments))
    return ToolCallBlock(call.id, call.name, object_text(arguments) or arguments)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
