"""The events of the pipeline."""

from dataclasses import dataclass
from operator import attrgetter

from terret_context import Emit, Waterfall

from ._calls import ToolExec
from ._decisions import Allow, Decision, Deny, PostDecision
from ._outcome import ToolOutcome


@dataclass(frozen=True, slots=True)
class Decided:
    """A call, with edited arguments if there are any, and what was decided; it has grounds."""

    exec: ToolExec
    decision: Allow | Deny


@dataclass(frozen=True, slots=True)
class Executed:
    """A call and what became of it."""

    exec: ToolExec
    outcome: ToolOutcome


PRE_EXECUTE = Waterfall[ToolExec, Decision](
    "tools/pre-execute", subject=attrgetter("agent"), doc="May this call run?"
)
DECIDED = Waterfall[Decided, Allow | Deny](
    "tools/decided",
    subject=attrgetter("exec.agent"),
    doc="Policies, approval and tool guards decided: record it, or deny what was allowed.",
)
EXECUTE = Waterfall[ToolExec, ToolOutcome](
    "tools/execute",
    subject=attrgetter("agent"),
    repeat=True,
    doc="Around the body of a call: bounds, repeats or replaces it.",
)
POST_EXECUTE = Waterfall[Executed, PostDecision](
    "tools/post-execute",
    subject=attrgetter("exec.agent"),
    doc="May this result reach the model, and in which form?",
)
RESULT = Emit[Executed](
    "tools/result", subject=attrgetter("exec.agent"), doc="The final outcome of a call, once."
)
CHANGE = Emit[()]("tools/change", doc="A tool, tool guard or restriction came or went.")
