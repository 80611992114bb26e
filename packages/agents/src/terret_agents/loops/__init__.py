"""What loops are built of: the rules of a turn that do not depend on how a loop works."""

from ._answer import Answer
from ._checkpoints import (
    announce_stopping,
    ask_continuation,
    ask_stop,
    propose_step,
    recover_request,
    settle_answer,
)
from ._prompt import Composer, Prompt
from ._request_log import RequestLog
from ._requesting import build_request
from ._variables import register_variables

__all__ = [
    "Answer",
    "Composer",
    "Prompt",
    "RequestLog",
    "announce_stopping",
    "ask_continuation",
    "ask_stop",
    "build_request",
    "propose_step",
    "recover_request",
    "register_variables",
    "settle_answer",
]
