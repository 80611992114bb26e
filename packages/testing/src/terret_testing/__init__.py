"""Test support for Terret plugins: a scripted model, a harness to boot, fixtures."""

from ._clock import ManualClock
from ._faulty_server import (
    FaultyModelServer,
    ServerAnswer,
    ServerExhaustedError,
    WireRequest,
)
from ._harness import Harness, running_harness
from ._model import ScriptedModel, ScriptExhaustedError, script
from ._script import Answer, Part, Reply, call, fail, pause, raw_call, reply, say, think
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
    "Answer",
    "FaultyModelServer",
    "Harness",
    "ManualClock",
    "Part",
    "Reply",
    "ScriptExhaustedError",
    "ScriptedModel",
    "ServerAnswer",
    "ServerExhaustedError",
    "WireAnswer",
    "WireRequest",
    "call",
    "chat_answer",
    "event_answer",
    "fail",
    "messages_answer",
    "pause",
    "random_faults",
    "raw_answer",
    "raw_call",
    "reply",
    "running_harness",
    "say",
    "script",
    "silent_answer",
    "status_answer",
    "think",
]
