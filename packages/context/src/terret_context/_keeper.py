"""The tasks of a container: one group for all of them, and exit requests that they may raise."""

import threading
from collections.abc import Callable, Coroutine
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

from ._errors import WrongThreadError

Main: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Keeper:
    """Keeps the tasks of fibers, each of which can end without ending any other."""

    def __init__(self) -> None:
        self.fatal_error: BaseException | None = None
        self.cancel_block: Callable[[], None] = lambda: None
        self.now = 0.0
        self.event: Callable[[], anyio.Event] = anyio.Event
        self._tasks: TaskGroup | None = None
        self._deferred: list[tuple[Variables, Main, str]] = []
        self._thread = threading.get_ident()

    def start(self, main: Main, name: str) -> None:
        """Runs a task of a fiber in the kernel's group, in a copy of the caller's variables."""
        if self._tasks is None:
            self._deferred.append((copy_context(), main, name))
        else:
            self._tasks.start_soon(self._guard, main, name=name)

    def open_group(self, group: TaskGroup) -> None:
        """From now on tasks run, also those that were started before."""
        self._tasks = group
        self.event = type(anyio.Event())  # that of the running backend, which need not be looked up
        for variables, main, name in self._deferred:
            variables.run(partial(group.start_soon, self._guard, main, name=name))
        self._deferred.clear()

    def close_group(self) -> None:
        self._tasks = None

    def fatal(self, error: BaseException) -> Exception:
        """Ends the container for something that no plugin may contain, such as `SystemExit`.

        Returns what is kept in its place by the code that it came from.
        """
        if self.fatal_error is None:
            self.fatal_error = _leaf(error)
            self.cancel_block()
            self.request_exit()
        return RuntimeError(f"{type(error).__name__} ended the container")

    def request_exit(self) -> None:
        raise NotImplementedError

    def check_thread(self, action: str, subject: object) -> None:
        """Raises `WrongThreadError` in any thread but that of the event loop."""
        if threading.get_ident() != self._thread:
            raise WrongThreadError(f"{action} {subject}")

    def enter_thread(self) -> None:
        """From now on the container belongs to the running thread."""
        self._thread = threading.get_ident()

    def clock(self) -> float:
        """Returns the time of the event loop, also outside of a transition."""
        return self.now if self._tasks is None else anyio.current_time()

    async def _guard(self, main: Main) -> None:
        try:
            await main()
        except BaseException as error:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                self.fatal(error)
            elif self._tasks is None or self._tasks.cancel_scope.cancel_called:
                raise


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        worse = [one for one in error.exceptions if not isinstance(one, Exception)]
        error = (worse or list(error.exceptions))[0]
    return error
