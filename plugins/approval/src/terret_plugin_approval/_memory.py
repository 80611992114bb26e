"""Calls that somebody allowed for the rest of a session; the log alone knows them."""

import json
from collections.abc import Mapping
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
        self.asked: dict[str, tuple[str, object]] = {}
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
            fold.asked[str(event.data.get("id"))] = (tool, args)
        elif event.type == "approval/decided":
            _remember(fold, event.data)
    fold.position = len(events)


def _remember(fold: _Fold, data: Mapping[str, object]) -> None:
    id = str(data.get("id"))
    asked = fold.asked.pop(id, None)
    if asked is None or data.get("remember") is not True or data.get("outcome") != "allowed-once":
        return
    tool, args = asked
    by = data.get("by")
    key = (tool, _canonical(data.get("args", args)))
    fold.allowed[key] = Remembered(id, str(by) if by else None)


def _canonical(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))
