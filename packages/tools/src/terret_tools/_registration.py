"""A registered tool: its compiled schemas and its bodies in flight."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

from terret_llm import ToolSchema
from terret_sessions import LosslessJsonError, copy_json

from ._definition import Arguments, Tool
from ._errors import INVALID_TOOL_OUTPUT, Violation, ViolationError
from ._json import scrub
from ._outcome import ToolOutcome, as_blocks, failure, failure_from, success
from ._schemas import checked, matcher

_RUNNING: ContextVar[tuple["Registration", ...]] = ContextVar("terret_tools_running", default=())


class Registration:
    """One registration of a tool; a call keeps it, whatever becomes of the registry."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        name, output = tool.name, tool.output
        self.parameters = checked(name, "parameters", tool.parameters, root_object=True)
        # What pydantic made it checks itself, values and schema alike.
        if tool.parse is None:
            self._matches = matcher(name, "parameters", self.parameters)
        if output is not None and output.encode is None:
            self._is_output = matcher(name, "output", checked(name, "output", output.schema))
        self._in_flight = 0
        self._left: anyio.Event | None = None

    def schema(self) -> ToolSchema:
        """Returns what a model sees of the tool; nothing of it is shared."""
        return ToolSchema(self.tool.name, self.tool.description, copy_json(self.parameters))

    def keywords(self, arguments: object) -> Arguments:
        """Returns the keywords of a call; raises `ViolationError`."""
        if not isinstance(arguments, dict):
            given = "text that is no JSON" if isinstance(arguments, str) else "another JSON value"
            raise ViolationError((Violation("", f"must be a JSON object, not {given}"),))
        if self.tool.parse is None:
            return self._matches(arguments)  # type: ignore[return-value]  # the root is an object
        try:
            return self.tool.parse(arguments)
        except ViolationError:
            raise
        except ValueError as error:
            raise ViolationError((Violation("", str(error)),)) from error

    def outcome_of(self, result: object, keywords: Arguments) -> ToolOutcome:
        """Makes the outcome of what a body returned."""
        if self.tool.output is None:
            try:
                return success(as_blocks(result))
            except TypeError as error:
                return failure(
                    f"{self.tool.name} has no output declaration, and {error}",
                    code=INVALID_TOOL_OUTPUT,
                )
        return self.rendered(result, keywords)

    def rendered(self, value: object, keywords: Arguments) -> ToolOutcome:
        """Makes a success of a value, or a failure if it is no value of the output."""
        output = self.tool.output
        if output is None:
            message = f"{self.tool.name} has no output declaration that could render a value"
            return failure(message, code=INVALID_TOOL_OUTPUT)
        try:
            json = self._as_json(value)
        except ViolationError as error:
            violations = [{"pointer": v.pointer, "message": v.message} for v in error.violations]
            return failure(
                f"{self.tool.name} gave a value that is not what it declares: {error}",
                code=INVALID_TOOL_OUTPUT,
                data={"violations": violations},
            )
        try:
            return success(output.render(keywords, json), value=json)
        except Exception as error:
            return failure_from(error)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts a body in flight."""
        self._in_flight += 1
        token = _RUNNING.set((*_RUNNING.get(), self))
        try:
            yield
        finally:
            _RUNNING.reset(token)
            self._in_flight -= 1
            if self._left is not None:
                self._left.set()

    async def drain(self) -> None:
        """Waits for all bodies in flight but those that the caller is part of."""
        own = _RUNNING.get().count(self)
        while self._in_flight > own:
            self._left = anyio.Event()
            await self._left.wait()

    def _as_json(self, value: object) -> object:
        output = self.tool.output
        if output is not None and output.encode is not None:
            try:
                value = output.encode(value)
            except ValueError as error:
                raise ViolationError((Violation("", str(error)),)) from error
            return _lossless(value)
        return self._is_output(_lossless(value))


def _lossless(value: object) -> object:
    try:
        return copy_json(scrub(value))
    except LosslessJsonError as error:
        raise ViolationError((Violation(error.pointer, str(error)),)) from None
    except RecursionError:
        raise ViolationError((Violation("", "nested too deeply"),)) from None
