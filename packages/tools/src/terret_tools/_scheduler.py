"""The stages of a call."""

from functools import partial

import anyio
from anyio import CancelScope, get_cancelled_exc_class
from anyio.lowlevel import checkpoint_if_cancelled

from terret_context import Context
from terret_llm import error_chain

from ._bodies import Bodies
from ._decisions import Accept, Allow, Deny, Grounds
from ._errors import ABORTED, INVALID_ARGS
from ._events import EXECUTE, POST_EXECUTE, RESULT, Executed
from ._invocation import Invocation
from ._judging import confirm, judge
from ._outcome import ToolOutcome, failure, failure_from
from ._registry import Registry
from ._reviewing import finalized, reviewed
from ._threads import Threads


class ToolScheduler:
    """The stages of a call, for loops that run several calls at a time.

    Each call is an `Invocation` and goes through `prepare`, then `dispatch` unless it has an
    outcome by then, `finalize` and `finish`. Whatever a tool or a listener raises becomes an
    outcome. Cancellation goes through, and the call has its outcome by then; `finalize` and
    `finish` are still due. A stage out of order is a `RuntimeError`.
    """

    def __init__(self, ctx: Context, registry: Registry, threads: Threads) -> None:
        self._ctx = ctx
        self._registry = registry
        self._threads = threads
        self._bodies = Bodies(ctx, registry, threads)

    async def prepare(self, call: Invocation) -> None:
        """Asks policies and tool guards; a denied, failed or aborted call has an outcome then."""
        call.enter("prepare", after=("new",))
        call.registration = self._registry.find(call.exec.name, call.exec.agent)
        if call.exec.fault is not None:
            call.end(failure(f"invalid arguments: {call.exec.fault}", code=INVALID_ARGS))
            return
        try:
            await checkpoint_if_cancelled()
            await self._decide(call)
        except get_cancelled_exc_class():
            call.interrupt()
            raise
        except Exception as error:
            call.end(failure_from(error))

    async def dispatch(self, call: Invocation) -> None:
        """Runs the body inside the wrappers of `tools/execute`; the call has an outcome then."""
        call.enter("dispatch", after=("prepare",))
        try:
            await checkpoint_if_cancelled()
            call.dispatched = True
            body = partial(self._bodies.run, call)
            given = await self._ctx.waterfall(EXECUTE, call.exec, body)
            call.outcome = self._bodies.checked(call, given)
            if not call.outcome.is_error:
                await checkpoint_if_cancelled()
        except get_cancelled_exc_class():
            call.interrupt()
            raise
        except Exception as error:
            call.end(failure_from(error))

    async def finalize(self, call: Invocation) -> None:
        """Lets policies see and change the outcome, and then the tool its content, once.

        A call that was interrupted is reviewed under a shield, for up to `grace` seconds; a
        review that takes longer leaves nothing of its content. Idempotent, so that a loop may
        go on with it when this was cancelled.
        """
        if call.finalized:
            return
        call.enter("finalize", after=("prepare", "dispatch"))
        if call.final:
            return
        try:
            if call.interrupted:
                await self._review_shielded(call)
            else:
                await self._review(call)
        finally:
            call.outcome = finalized(call, _known(call))

    def finish(self, call: Invocation) -> ToolOutcome:
        """Announces the final outcome, once, and returns it."""
        outcome = _known(call)
        if not call.settled:
            call.settled = True
            self._ctx.emit(RESULT, Executed(call.exec, outcome))
        return outcome

    async def _decide(self, call: Invocation) -> None:
        try:
            decision = await judge(self._ctx, self._registry, call)
        except Exception as error:
            call.end(failure_from(error))
            reason = error_chain(error)
            decision = Deny(reason, grounds=Grounds(source="hook", reason=reason))
        # The outcome of a denial is known from here on, also if the recording is cancelled.
        self._refuse(call, decision)
        self._refuse(call, await confirm(self._ctx, call, decision))

    def _refuse(self, call: Invocation, decision: Allow | Deny) -> None:
        if isinstance(decision, Deny) and not call.final:
            data, code = decision.data, decision.code
            call.outcome = failure(decision.reason, code=code, name="Denial", data=data)

    async def _review(self, call: Invocation) -> None:
        try:
            await self._ask_policies(call)
        except get_cancelled_exc_class():
            call.interrupt()
            await self._review_shielded(call)
            raise
        try:
            await checkpoint_if_cancelled()
        except get_cancelled_exc_class():
            call.interrupt()
            raise

    async def _review_shielded(self, call: Invocation) -> None:
        known = _known(call)
        deadline = anyio.current_time() + self._threads.grace
        with CancelScope(shield=True, deadline=deadline) as scope:
            await self._ask_policies(call)
        if scope.cancelled_caught:
            call.outcome = failure(
                "the turn was cancelled",
                code=known.code or ABORTED,
                contexts=known.additional_contexts,
            )

    async def _ask_policies(self, call: Invocation) -> None:
        outcome = _known(call)
        if not self._ctx.listeners(POST_EXECUTE, call.exec.agent):
            return
        try:
            given = Executed(call.exec, outcome)
            decision = await self._ctx.waterfall(POST_EXECUTE, given, Accept)
            call.outcome = reviewed(call, outcome, decision)
        except Exception as error:
            call.outcome = failure_from(error, contexts=outcome.additional_contexts)


def _known(call: Invocation) -> ToolOutcome:
    if call.outcome is None:
        raise RuntimeError(f"call {call.exec.call_id!r} has no outcome yet")
    return call.outcome
