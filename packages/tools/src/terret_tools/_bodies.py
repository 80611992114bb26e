"""Running bodies, and checking what comes back."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import inf

from anyio import current_effective_deadline, get_cancelled_exc_class

from terret_context import Context

from ._calls import ToolExec, ToolRun
from ._definition import Arguments, Tool, is_async
from ._errors import (
    INVALID_ARGS,
    INVALID_TOOL_OUTPUT,
    UNKNOWN_TOOL,
    ToolOverrunError,
    Violation,
    ViolationError,
)
from ._invocation import Invocation
from ._outcome import ToolOutcome, as_blocks, failure, failure_from
from ._registration import Registration
from ._registry import Registry
from ._threads import Job, Threads


class Bodies:
    """Runs the bodies of tools; everything they do becomes an outcome."""

    def __init__(self, ctx: Context, registry: Registry, threads: Threads) -> None:
        self._ctx = ctx
        self._registry = registry
        self._threads = threads

    async def run(self, call: Invocation) -> ToolOutcome:
        """Looks the tool up, checks the arguments and runs the body."""
        call.returned = await self._run(call)
        return call.returned

    def checked(self, call: Invocation, outcome: object) -> ToolOutcome:
        """Returns what the wrappers gave, checked again unless the body gave it."""
        if outcome is call.returned and call.returned is not None:
            return call.returned
        if not isinstance(outcome, ToolOutcome):
            given = f"a value of type {type(outcome).__name__}"
            return failure(f"tools/execute gave {given}, no outcome", code=INVALID_TOOL_OUTPUT)
        try:
            content = as_blocks(outcome.content)
        except TypeError as error:
            return failure(f"tools/execute: {error}", code=INVALID_TOOL_OUTPUT)
        if outcome.error is not None:
            return replace(outcome, content=content or failure(outcome.error.message).content)
        registration = call.registration
        if registration is None or registration.tool.output is None:
            return replace(outcome, content=content)
        rendered = registration.rendered(outcome.value, call.keywords)
        if rendered.is_error:
            return replace(rendered, additional_contexts=outcome.additional_contexts)
        return replace(outcome, content=content or rendered.content, value=rendered.value)

    async def _run(self, call: Invocation) -> ToolOutcome:
        found = prepared(self._registry, call.exec)
        if isinstance(found, ToolOutcome):
            return found
        registration, keywords = found
        call.registration = registration
        run = call.begin(keywords)
        with registration.running():
            outcome = await self._call(call, registration, run)
        concludes = run.concludes and not outcome.is_error
        return replace(outcome, additional_contexts=run.contexts, concludes_turn=concludes)

    async def _call(
        self, call: Invocation, registration: Registration, run: ToolRun
    ) -> ToolOutcome:
        tool = registration.tool
        try:
            if is_async(tool.execute):
                result = await tool.execute(run, **call.keywords)
            else:
                result = await self._in_thread(call, tool, run)
        except (Exception, SystemExit) as error:  # a command line used as a tool exits
            return failure_from(error)
        except get_cancelled_exc_class() as error:
            if current_effective_deadline() == -inf:
                raise
            # It was nobody here who cancelled: the body awaited something that others cancelled.
            return failure_from(error)
        return registration.outcome_of(result, call.keywords)

    async def _in_thread(self, call: Invocation, tool: Tool, run: ToolRun) -> object:
        job = Job(partial(tool.execute, run, **call.keywords), run)
        try:
            await self._threads.run(job)
        except get_cancelled_exc_class():
            if job.error is not None:
                call.returned = failure_from(job.error, contexts=run.contexts)
            if job.abandoned:
                call.abandoned = True
                overrun = ToolOverrunError(tool.name, self._threads.grace)
                self._ctx.report(overrun, label=f'tool "{tool.name}"')
            raise
        if job.error is not None:
            raise job.error
        return job.value


def prepared(registry: Registry, exec: ToolExec) -> tuple[Registration, Arguments] | ToolOutcome:
    """Returns the tool of a call with the keywords for its body, or how the call fails."""
    registration = registry.find(exec.name, exec.agent)
    if registration is None:
        return failure(f'there is no tool "{exec.name}"', code=UNKNOWN_TOOL)
    try:
        return registration, registration.keywords(exec.plain_arguments())
    except ViolationError as error:
        return _invalid_arguments(exec.name, error.violations)
    except Exception as error:
        return failure_from(error)


def _invalid_arguments(name: str, violations: Iterable[Violation]) -> ToolOutcome:
    found = list(violations)
    lines = "\n".join(f"- {violation}" for violation in found)
    return failure(
        f"invalid arguments for {name}:\n{lines}",
        code=INVALID_ARGS,
        data={"violations": [{"pointer": v.pointer, "message": v.message} for v in found]},
    )
