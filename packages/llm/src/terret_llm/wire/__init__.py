"""What adapters of different wires share: bodies, histories, JSON and errors of providers."""

from ._body import AnswerStream, Decoder
from ._failures import ProviderErrors, retry_after_ms
from ._history import HistoryCodec, history_parts
from ._ids import call_ids_of, fitting_id
from ._json import dump_json, exact, object_text, parse_json, without_lone_escapes

__all__ = [
    "AnswerStream",
    "Decoder",
    "HistoryCodec",
    "ProviderErrors",
    "call_ids_of",
    "dump_json",
    "exact",
    "fitting_id",
    "history_parts",
    "object_text",
    "parse_json",
    "retry_after_ms",
    "without_lone_escapes",
]
