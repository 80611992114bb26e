"""Test support for Terret plugins: a scripted model, a harness to boot, fixtures."""

from ._harness import Harness, running_harness
from ._model import ScriptedModel, ScriptExhaustedError, script
from ._script import Answer, Part, Reply, call, fail, pause, raw_call, reply, say, think

__all__ = [
    "Answer",
    "Harness",
    "Part",
    "Reply",
    "ScriptExhaustedError",
    "ScriptedModel",
    "call",
    "fail",
    "pause",
    "raw_call",
    "reply",
    "running_harness",
    "say",
    "script",
    "think",
]
