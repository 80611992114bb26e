"""Test support for Terret plugins: a scripted model, a harness to boot, fixtures."""

from ._balance import assert_balanced
from ._clock import ManualClock
from ._faulty_server import (
    FaultyModelServer,
    ServerAnswer,
    ServerExhaustedError,
    WireRequest,
)
from ._harness import SCRIPTED, Harness, Mount, running_harness
from ._memory import MemorySessions
from ._model import ScriptedModel, ScriptExhaustedError, script
from ._placeholders import PlaceholderError
from ._recording import ReplayError, read_session
from ._replay import Broken, Hanging, ReplayModel
from ._script import Answer, Call, Part, Reply, Say, call, fail, pause, raw_call, reply, say, think
from ._streams import OpenScopeError, watched
from ._wire_answers import (
    WireAnswer,
    chat_answer,
    event_answer,
    messages_answer,
    random_faults,
    raw_answer,
    silent_answer,
    status_answer,
)

__all__ = [
    "SCRIPTED",
    "Answer",
    "Broken",
    "Call",
    "FaultyModelServer",
    "Hanging",
    "Harness",
    "ManualClock",
    "MemorySessions",
    "Mount",
    "OpenScopeError",
    "Part",
    "PlaceholderError",
    "ReplayError",
    "ReplayModel",
    "Reply",
    "Say",
    "ScriptExhaustedError",
    "ScriptedModel",
    "ServerAnswer",
    "ServerExhaustedError",
    "WireAnswer",
    "WireRequest",
    "assert_balanced",
    "call",
    "chat_answer",
    "event_answer",
    "fail",
    "messages_answer",
    "pause",
    "random_faults",
    "raw_answer",
    "raw_call",
    "read_session",
    "reply",
    "running_harness",
    "say",
    "script",
    "silent_answer",
    "status_answer",
    "think",
    "watched",
]
