"""The state of one call on its way through the pipeline."""

from terret_llm import Message

from ._calls import ToolExec, ToolRun
from ._definition import Arguments
from ._errors import ABORTED, TOOL_OUTCOME_UNKNOWN
from ._outcome import ToolOutcome, aborted_before_dispatch, failure
from ._registration import Registration


class Invocation:
    """One call on its way through the stages of a `ToolScheduler`.

    Attributes:
        exec: The call; its arguments change when an approval edits them.
        outcome: What became of it, `None` as long as its body may still run.
        settled: Whether `finish` has announced the outcome.
    """

    def __init__(self, exec: ToolExec) -> None:
        self.exec = exec
        self.outcome: ToolOutcome | None = None
        self.settled = False
        self.final = False
        self.interrupted = False
        self.dispatched = False
        self.registration: Registration | None = None
        self.keywords: Arguments = {}
        self.run: ToolRun | None = None
        self.returned: ToolOutcome | None = None
        self.abandoned = False
        self._stage = "new"

    @property
    def finalized(self) -> bool:
        return self._stage == "finalize"

    def enter(self, stage: str, *, after: tuple[str, ...]) -> None:
        """Moves to the next stage; raises `RuntimeError` if another one is due."""
        if self._stage not in after:
            raise RuntimeError(f"call {self.exec.call_id!r}: {stage} does not follow {self._stage}")
        self._stage = stage

    def begin(self, keywords: Arguments) -> ToolRun:
        """Starts one run of the body; a wrapper may ask for several."""
        self.keywords = keywords
        self.run = ToolRun(self.exec)
        self.returned = None
        self.abandoned = False
        return self.run

    def end(self, outcome: ToolOutcome) -> None:
        """Gives the call an outcome that no further stage changes."""
        self.outcome = outcome
        self.final = True

    def interrupt(self) -> None:
        """Tells that the turn was cancelled: a success becomes ABORTED, a failure stays."""
        self.interrupted = True
        known = self.outcome or self.returned
        if known is not None and known.is_error:
            self.outcome = known
        elif not self.dispatched:
            self.end(aborted_before_dispatch())
        elif known is None and self.abandoned:
            self.outcome = failure(
                "the turn was cancelled and the call goes on; whether it succeeds is not known",
                code=TOOL_OUTCOME_UNKNOWN,
                contexts=self._deferred(),
            )
        else:
            contexts = known.additional_contexts if known else self._deferred()
            self.outcome = failure("the turn was cancelled", code=ABORTED, contexts=contexts)

    def _deferred(self) -> tuple[Message, ...]:
        return self.run.contexts if self.run else ()
