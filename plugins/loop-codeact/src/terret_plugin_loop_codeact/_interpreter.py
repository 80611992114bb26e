"""A Python process that runs the programs of one agent, and keeps their names in between."""

import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, TypeAlias
from uuid import uuid4

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_core import from_json

from terret_agents import Agent
from terret_llm import HarnessError

from ._observations import has_observed
from ._output import Output

WORKER: Final = files("terret_plugin_loop_codeact").joinpath("_worker.py").read_text("utf-8")
MAX_FRAME: Final = 64 * 1024 * 1024
START: Final = 60.0  # seconds that `command` may take until it answers
PATIENCE: Final = 1.0  # seconds for the rest of the output of a process that has ended

Call: TypeAlias = Callable[[str, list[object], dict[str, object]], Awaitable[dict[str, object]]]
"""Calls a function for a program: gives the frame to answer it with."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the interpreters of all agents have in common; see the plugin's configuration."""

    command: tuple[str, ...]
    environment: tuple[str, ...]
    timeout: float
    max_output: int


class NoInterpreterError(HarnessError):
    """The configured command started nothing that answers."""

    def __init__(self, command: Sequence[str], reason: str) -> None:
        self.command = tuple(command)
        super().__init__(
            f"no Python answers to `{' '.join(command)}` ({reason}): check `command` of "
            "loop-codeact",
            "NO_INTERPRETER",
        )


class Interpreter:
    """Runs programs one after the other; the process starts with the first and goes with the agent.

    A program that is cancelled or takes too long costs the process, and with it the names of all
    programs before; so does one that ends it. The next program gets a new one.

    Attributes:
        restarted: Whether the process of the last program did not know the programs before it.
    """

    def __init__(self, agent: Agent, settings: Settings) -> None:
        self.restarted = False
        self._agent = agent
        self._settings = settings
        self._is_owned = False
        self._process: Process | None = None
        self._frames: BufferedByteReceiveStream | None = None

    async def run(self, program: str, functions: Iterable[str], call: Call) -> str:
        """Runs a program and returns what it printed.

        Raises what `call` raises, and `NoInterpreterError` if there is no process. On that, and on
        cancellation, the process has ended.
        """
        end = f"\0{uuid4()}\0"
        frame = {"program": program, "functions": list(functions), "end": end}
        output = Output(end.encode(), self._settings.max_output)
        failure: Exception | None = None
        trouble = ""
        survives = False
        try:
            process = await self._started()
            async with anyio.create_task_group() as reading:
                reading.start_soon(output.collect, process.stderr)
                try:
                    trouble = await self._converse(process, frame, call)
                except Exception as error:
                    failure = error
                if failure is not None or trouble:
                    await _kill(process)
                with anyio.move_on_after(PATIENCE):  # what the program started may hold the stream
                    await output.complete.wait()
                survives = failure is None and not trouble
                reading.cancel_scope.cancel()
        finally:
            if not survives:
                with anyio.CancelScope(shield=True):
                    await self.aclose()
        if failure is not None:
            raise failure
        return output.text() + trouble

    async def aclose(self) -> None:
        """Ends the process, with those that it has started."""
        process, self._process = self._process, None
        if process is not None:
            await _kill(process)
            await process.aclose()

    async def _started(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            self.restarted = False
            return self._process
        await self.aclose()
        if not self._is_owned:
            self._agent.ctx.effect(lambda: self.aclose, label="python interpreter")
            self._is_owned = True
        self._process = process = await self._start()
        assert process.stdout is not None
        self._frames = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(START):
                await self._frames.receive_until(b"\n", MAX_FRAME)  # it is ready
        except (anyio.IncompleteRead, anyio.EndOfStream, TimeoutError) as error:
            raise NoInterpreterError(self._settings.command, repr(error)) from error
        self.restarted = has_observed(self._agent.session)
        return process

    async def _start(self) -> Process:
        settings = self._settings
        try:
            return await anyio.open_process(
                [*settings.command, "-c", WORKER],
                cwd=self._agent.session.header.cwd,
                env={name: value for name, value in os.environ.items() if self._passes(name)},
                start_new_session=True,
            )
        except OSError as error:
            raise NoInterpreterError(settings.command, str(error)) from error

    def _passes(self, variable: str) -> bool:
        return variable in self._settings.environment

    async def _converse(self, process: Process, frame: Mapping[str, object], call: Call) -> str:
        """Answers the calls of a program until it ends; returns why the process did not survive."""
        assert self._frames is not None
        left, end = self._settings.timeout, frame["end"]
        while True:
            began = anyio.current_time()
            try:
                with anyio.move_on_after(left) as limit:
                    await _send(process, frame)
                    asked = _asked(await self._frames.receive_until(b"\n", MAX_FRAME), end)
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                return "\n[the program ended the interpreter]"
            except anyio.DelimiterNotFound:
                return f"\n[the program was stopped: a call has more than {MAX_FRAME} bytes]"
            except ValueError:
                return "\n[the program was stopped: it broke the connection that calls go through]"
            if limit.cancelled_caught:
                return f"\n[the program was stopped after {self._settings.timeout:g} seconds]"
            left -= anyio.current_time() - began
            if asked is None:
                return ""
            frame = await call(*asked)


def _asked(line: bytes, end: object) -> tuple[str, list[object], dict[str, object]] | None:
    """Returns the call in a line of the worker, `None` at the end of the program.

    Raises `ValueError` for a line that no worker writes.
    """
    match from_json(line):
        case {"call": str(name), "args": list(args), "kwargs": dict(kwargs)}:
            return name, args, kwargs
        case {"done": done} if done == end:
            return None
        case _:
            raise ValueError("neither a call nor the end of this program")


async def _send(process: Process, frame: Mapping[str, object]) -> None:
    assert process.stdin is not None
    await process.stdin.send(json.dumps(frame).encode() + b"\n")


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await process.wait()
