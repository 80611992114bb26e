"""The session log as events of the LoopEngine protocol v1, with cursors and a grammar."""

from ._acceptor import Acceptor, LoopGrammarError, check
from ._cursor import START, BadCursorError, Cursor
from ._projection import EventProjection, Projection
from ._schema import InvalidLoopEventError, schema_bytes, validate
from ._service import LoopEvents, LoopEventsConfig, ProjectionFactory, UnknownProtocolError
from ._stream import EventStream, Output

__all__ = [
    "START",
    "Acceptor",
    "BadCursorError",
    "Cursor",
    "EventProjection",
    "EventStream",
    "InvalidLoopEventError",
    "LoopEvents",
    "LoopEventsConfig",
    "LoopGrammarError",
    "Output",
    "Projection",
    "ProjectionFactory",
    "UnknownProtocolError",
    "check",
    "schema_bytes",
    "validate",
]
