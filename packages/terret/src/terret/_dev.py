"""`terret dev`: runs the service, and again when its code has changed."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread
from anyio.abc import Process, TaskGroup
from watchfiles import Change, awatch

from terret_loader import read_env_file

from ._boot import Boot
from ._changes import is_of_project, real
from ._errors import DONE, FAILED, REFUSED, CommandError
from ._link import GRACE, MARGIN, VARIABLE, Link
from ._printing import end_typed_line, say

COLLECT_MS: Final = 200


async def develop(boot: Boot, flags: Sequence[str]) -> int:
    """Serves, follows changes of the project, and outlives what it runs; returns the exit code."""
    if os.name != "posix":
        raise CommandError("terret dev needs processes of POSIX; terret serve runs everywhere")
    variables = {**read_env_file(boot.variables), **os.environ}
    return await Supervisor(boot, flags, variables.get("TERRET_DATA") or ".terret").run()


class Supervisor:
    """Runs one service at a time, and beside it the next one while that is being checked."""

    def __init__(self, boot: Boot, flags: Sequence[str], data: str) -> None:
        self._root = boot.folder.resolve()
        self._env_file = real(boot.variables)
        self._data = self._root / data
        self._flags = flags
        self._current: Service | None = None
        self._services: set[Service] = set()
        self._one_at_a_time = anyio.Lock()
        self._over = anyio.Event()
        self._is_stopping = False
        self._code: int | None = None
        self._group: TaskGroup

    async def run(self) -> int:
        """Returns when a signal has ended it, or when it cannot serve here at all."""
        async with anyio.create_task_group() as self._group:
            for task in (self._obey, self._watch, self._start):
                self._group.start_soon(task)
            await self._over.wait()
            self._group.cancel_scope.cancel()
        return DONE if self._code is None else self._code

    async def _obey(self) -> None:
        """Ends the service in order at the first signal, and at once at the second."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if self._is_stopping:
                    self._code = 128 + number
                    self._kill()
                    continue
                self._is_stopping = True
                end_typed_line()
                say("stopping; a second signal ends at once")
                for service in self._services:
                    service.signal(signal.SIGTERM)
                if not self._services:
                    self._over.set()
                self._group.start_soon(self._lose_patience)

    async def _lose_patience(self) -> None:
        await anyio.sleep(GRACE + MARGIN)
        say(f"the service did not end within {GRACE:.0f} s and is killed")
        self._kill()

    def _kill(self) -> None:
        for service in self._services:
            service.signal(signal.SIGKILL)

    async def _watch(self) -> None:
        elsewhere = not self._env_file.is_relative_to(self._root)
        try:
            async for batch in awatch(
                self._root,
                *([self._env_file.parent] if elsewhere else ()),
                watch_filter=self._matters,
                step=COLLECT_MS,
                stop_event=self._over,
                ignore_permission_denied=True,
            ):
                await self._changed(sorted({path for _, path in batch}))
        except (OSError, RuntimeError) as error:  # too many files, for example
            say(f"changes are not followed: {error}")

    def _matters(self, change: Change, path: str) -> bool:
        return is_of_project(Path(path), self._root, env_file=self._env_file, data=self._data)

    async def _changed(self, paths: Sequence[str]) -> None:
        async with self._one_at_a_time:
            if self._current is not None:
                tell = partial(self._current.link.send, changed=paths)
                await to_thread.run_sync(tell, abandon_on_cancel=True)
                return
        await self._start()

    async def _start(self) -> None:
        """Starts the service, whatever is wrong with it: it says so itself."""
        async with self._one_at_a_time:
            if not self._is_stopping and self._current is None:
                self._let(await self._spawn())

    async def _restart(self, old: "Service") -> None:
        """Starts another service in place of the one that runs, if the new code can be loaded."""
        async with self._one_at_a_time:
            if self._is_stopping or self._current is not old:
                return
            service = await self._spawn()
            fresh = [text for text in service.faults if text not in old.faults]
            if (fresh or service.code is not None) and old.code is None:
                for text in fresh:
                    say(text)
                say("the service that runs goes on; waiting for the next change")
                service.signal(signal.SIGKILL)
                return
            self._current = None
            await old.end()
            self._let(service)

    def _let(self, service: "Service") -> None:
        if service.code is None:
            self._current = service
            service.link.send(go=True)
        elif not self._is_stopping:
            self._bury(service, service.code)

    async def _spawn(self) -> "Service":
        """Starts a process, which checks the project; returns when it has, or has ended."""
        ours, theirs = socket.socketpair()
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", "terret", "serve", *self._flags],
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env={**os.environ, VARIABLE: str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        theirs.close()
        service = Service(process, Link(ours))
        self._services.add(service)
        self._group.start_soon(self._attend, service)
        if self._is_stopping:
            service.signal(signal.SIGTERM)
        await service.checked.wait()
        return service

    async def _attend(self, service: "Service") -> None:
        """Listens to a service until it ends."""
        while (message := await service.receive()) is not None:
            if "restart" in message and service is self._current:
                say(f"{message['restart']} has changed; starting again")
                self._group.start_soon(self._restart, service)
        code = await service.ended()
        self._services.discard(service)
        if self._is_stopping:
            if self._code is None and service is self._current:
                self._code = code if code >= 0 else FAILED
            if not self._services:
                self._over.set()
        elif service is self._current:
            self._current = None
            self._bury(service, code)

    def _bury(self, service: "Service", code: int) -> None:
        """Handles the end of a service that nobody asked for."""
        if code == REFUSED and not service.has_begun and not service.faults:
            self._code = code
            self._over.set()
            return
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        say(f"the service has ended ({how}); it starts again with the next change")


class Service:
    """A process that serves, or waits until it may."""

    def __init__(self, process: Process, link: Link) -> None:
        self.process = process
        self.link = link
        self.checked = anyio.Event()
        self.faults: Sequence[str] = ()
        self.has_begun = False
        self.code: int | None = None
        self._gone = anyio.Event()

    async def receive(self) -> dict[str, Any] | None:
        """Waits for a message; `None` if there will be none."""
        message = await to_thread.run_sync(self.link.receive, abandon_on_cancel=True)
        if message is not None and "faults" in message:
            self.has_begun = self.checked.is_set()
            self.faults = message["faults"]
            self.checked.set()
        return message

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if there is still somebody."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def end(self) -> None:
        """Lets running turns end, and waits for the end of the process."""
        self.signal(signal.SIGTERM)
        with anyio.move_on_after(GRACE + MARGIN):
            await self._gone.wait()
        self.signal(signal.SIGKILL)
        await self._gone.wait()

    async def ended(self) -> int:
        """Waits for the end of the process, notes it, and returns the exit code."""
        self.code = await self.process.wait()
        self.checked.set()
        self._gone.set()
        self.link.close()
        return self.code
