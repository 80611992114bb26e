from collections.abc import Mapping

from terret_llm.wire import exact

_CONCATENATED = ("text", "summary", "data")


class ReasoningDetails:
    """Puts the pieces of `reasoning_details` together, as they have to go back to the server."""

    def __init__(self) -> None:
        self.items: list[dict[str, object]] = []

    def take(self, pieces: object) -> None:
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, Mapping):
                self._take(exact(piece))

    def _take(self, piece: Mapping[str, object]) -> None:
        last = self.items[-1] if self.items else None
        if last is None or any(last.get(key) != piece.get(key) for key in ("type", "index")):
            self.items.append(dict(piece))
            return
        for key, value in piece.items():
            before = last.get(key)
            if key in _CONCATENATED and isinstance(before, str) and isinstance(value, str):
                last[key] = before + value
            elif value is not None:
                last[key] = value
