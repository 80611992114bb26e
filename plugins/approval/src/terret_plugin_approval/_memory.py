"""Calls that somebody allowed for the rest of a session; the log alone knows them."""

import json
from typing import NamedTuple
from weakref import WeakKeyDictionary

from terret_sessions import Session
from terret_tools import ToolExec


class Remembered(NamedTuple):
    """The ask whose answer goes on to hold, and who gave it."""

    id: str
    by: str | None


class _Fold:
    """What a log has said so far."""

    def __init__(self, session: Session) -> None:
        self.position = session.header.seed_length or 0
        self.asked: dict[object, tuple[str, object]] = {}
        self.allowed: dict[tuple[str, str], Remembered] = {}


class Memory:
    """Finds the answer that was given to an equal call before."""

    def __init__(self) -> None:
        self._folds = WeakKeyDictionary[Session, _Fold]()

    def find(self, session: Session, call: ToolExec) -> Remembered | None:
        """Returns the ask of an equal call of this session that was to be remembered."""
        fold = self._folds.get(session)
        if fold is None:
            fold = self._folds[session] = _Fold(session)
        _advance(fold, session)
        return fold.allowed.get((call.name, _canonical(call.plain_arguments())))


def _advance(fold: _Fold, session: Session) -> None:
    events = session.events
    for event in events[fold.position :]:
        if event.type == "approval/asked" and "origin" not in event.data:
            tool, args = str(event.data.get("toolName")), event.data.get("args")
            fold.asked[event.data["id"]] = (tool, args)
        elif event.type == "approval/decided" and event.data["id"] in fold.asked:
            tool, args = fold.asked.pop(event.data["id"])
            if event.data.get("remember") is True and event.data["outcome"] == "allowed-once":
                key = (tool, _canonical(event.data.get("args", args)))
                by = event.data.get("by")
                fold.allowed[key] = Remembered(str(event.data["id"]), str(by) if by else None)
    fold.position = len(events)


def _canonical(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))
