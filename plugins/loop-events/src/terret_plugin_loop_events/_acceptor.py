"""The order of events in a turn: what the grammar of protocol v1 accepts."""

from collections.abc import Iterable
from typing import Final, NoReturn

from terret_context import TerretError

from ._batch import Batch, Wire, is_selection, require

_STOP_REASONS: Final = {"loop:done": None, "loop:denied": "denied", "loop:max_turns": "max_turns"}


class LoopGrammarError(TerretError, ValueError):
    """An event stands where the protocol has no place for it.

    Attributes:
        index: its number in the turn, that of a missing one is the length.
        event: the event, `None` if one is missing.
    """

    def __init__(self, index: int, event: Wire | None, problem: str) -> None:
        self.index = index
        self.event = event
        what = "the end" if event is None else repr(event.get("type"))
        super().__init__(f"event {index}, {what}: {problem}")


def check(events: Iterable[Wire], *, agent: str | None = None, complete: bool = True) -> None:
    """Accepts the events of one turn or raises `LoopGrammarError`.

    With `complete=False` the beginning of a turn is enough. `agent` is the name of the session's
    agent; it tells its own approvals from those of agents below it. What an event holds is not
    checked against the schema.
    """
    acceptor = Acceptor(agent)
    for event in events:
        acceptor.feed(event)
    if complete:
        acceptor.finish()


class Acceptor:
    """Takes the events of one turn, one after the other; see `check`."""

    def __init__(self, agent: str | None = None) -> None:
        self._agent = agent
        self._index = 0
        self._event: Wire | None = None
        self._open = False
        self._calls = 0
        self._batch: Batch | None = None
        self._pending: set[str] = set()
        self._terminal: Wire | None = None
        self._over = False

    def feed(self, event: Wire) -> None:
        """Takes the next event; raises `LoopGrammarError` if it cannot be the next."""
        self._event = event
        try:
            self._take(event)
        except ValueError as error:
            self._fail(str(error))
        except KeyError as error:
            self._fail(f"it has no {error}")
        self._index += 1

    def finish(self) -> None:
        """Raises `LoopGrammarError` if the turn is not over."""
        self._event = None
        if not self._over:
            self._fail("the turn is not over")

    def _take(self, event: Wire) -> None:
        kind = event.get("type")
        if self._over:
            raise ValueError("nothing follows the end of a turn")
        if not self._open:
            require(kind == "session", "a turn begins with session")
            self._open = True
        elif self._terminal is not None:
            self._end(event, self._terminal)
        elif kind == "budget:check":
            self._begin_call(event)
        elif kind in _STOP_REASONS:
            self._stop(event)
        elif kind == "error":
            if self._batch is not None:
                self._batch.cut()
            self._over = True
        elif self._batch is not None:
            self._batch.take(event)
        else:
            raise ValueError("it belongs to a model call, and none was made")

    def _begin_call(self, event: Wire) -> None:
        if self._batch is not None:
            self._batch.end()
            require(not self._batch.denied_by_human, "a person denied a call: the turn ends")
        require(("nudge" in event) == (event["action"] == "nudge"), "nudge goes with its action")
        used, budget, ratio = event["usedTokens"], event["budgetTokens"], event["ratio"]
        expected = used / budget if budget else 0
        require(abs(ratio - expected) < 1e-9, f"the ratio is {expected}")
        self._calls += 1
        self._batch = Batch(self._agent, self._pending)

    def _stop(self, event: Wire) -> None:
        batch = self._batch
        denied: list[str] = []
        if batch is not None:
            batch.end()
            denied = batch.denied
        if event["type"] == "loop:denied":
            names = event["deniedTools"]
            require(bool(names) and is_selection(names, denied), "it names denied calls in order")
        else:
            human = batch is not None and batch.denied_by_human
            require(not human, "a person denied a call: the turn ends with loop:denied")
        if event["type"] == "loop:max_turns":
            require(event["maxTurns"] == self._calls, f"{self._calls} model calls were made")
        self._terminal = event

    def _end(self, event: Wire, terminal: Wire) -> None:
        require(event.get("type") == "done", "done follows the end of the loop")
        reason = _STOP_REASONS[terminal["type"]]
        require(event.get("stopReason") == reason, f"the stopReason is {reason or 'left out'}")
        if terminal["type"] == "loop:done":
            require(event["text"] == terminal["text"], "the texts of loop:done and done are equal")
        self._over = True

    def _fail(self, problem: str) -> NoReturn:
        raise LoopGrammarError(self._index, self._event, problem) from None
