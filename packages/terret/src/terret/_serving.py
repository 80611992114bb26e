"""`terret serve`: the agents of a project over HTTP, until a signal ends it."""

import errno
import gc
import json
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio
import typer

from terret_context import Container, TerretError
from terret_loader import Fault, HarnessConfigError, Plan

from ._boot import Boot
from ._errors import DONE, FAILED, CommandError
from ._interrupts import Interrupts, interrupts
from ._printing import end_typed_line, say
from ._services import AGENT_FOLDERS, HTTP
from ._variables import check_data, settings_of

LOG: Final = ("logging.format=auto", "logging.levels.agent-definitions=critical")
"""Faults of agents are printed by the command."""


async def serve(boot: Boot, host: str | None, port: int | None) -> int:
    """Serves until a signal; returns the exit code. A second signal ends the process."""
    boot = addressed(boot, host, port)
    plan = boot.check()
    if plan.blocking(safe=boot.safe):
        raise HarnessConfigError(plan.faults)
    prepare(plan)
    with anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(defaults=LOG) as root,
        ):
            if (faults := await faults_of_agents(root)) and not boot.safe:
                raise HarnessConfigError(faults)
            for fault in faults:
                say(str(fault))
            return await Service(root, signals).run()
    return DONE


async def faults_of_agents(root: Container) -> Sequence[Fault]:
    """Looks at all definitions."""
    folders = root.get(AGENT_FOLDERS)
    return () if folders is None else await folders.check()


class Service:
    """A harness that answers over HTTP."""

    def __init__(self, root: Container, signals: Interrupts, *, grace: float | None = None) -> None:
        self._root = root
        self._signals = signals
        self._grace = grace
        self._is_open = False
        self._stop = anyio.Event()

    async def run(self) -> int:
        """Answers requests until a signal and the drain after it; returns the exit code."""
        self._signals.stop = self._stop.set
        drain = self._root.spawn(self._drain, name="drain")
        try:
            return await self._serve()
        finally:
            await drain.aclose()

    async def _serve(self) -> int:
        while not self._stop.is_set():
            http = self._root.get(HTTP)
            if http is None:
                say("the service ended: `http` does not run any more")
                return FAILED
            try:
                await http.serve(bound=self._bound)
            except TerretError as error:
                if self._is_open:
                    raise
                raise CommandError(str(error)) from error
            await self._root.settle()  # a change of the configuration brings a new service
        return DONE

    async def _drain(self) -> None:
        await self._stop.wait()
        if self._grace is None:
            end_typed_line()
            logging.getLogger("terret").info("stopping; a second signal ends at once")
        if (http := self._root.get(HTTP)) is not None:
            await http.drain(self._grace)

    def _bound(self, url: str) -> None:
        if not self._is_open:
            gc.collect()
            gc.freeze()  # what is there now stays: it is not searched for garbage again
        self._is_open = True
        folders = self._root.get(AGENT_FOLDERS)
        names = ", ".join(folders.definitions) if folders else ""
        typer.echo(f"listening on {url}, agents: {names or 'none'}")


def addressed(boot: Boot, host: str | None, port: int | None) -> Boot:
    """Adds to the settings where to listen: a flag beats a variable, which beats the file."""
    flags = (("host", host), ("port", port))
    given = tuple(f"http?.{key}={json.dumps(value)}" for key, value in flags if value is not None)
    return replace(boot, sets=(*_of_variables(boot.environment), *boot.sets, *given))


def _of_variables(env: Mapping[str, str]) -> Iterator[str]:
    if host := env.get("TERRET_HOST"):
        yield f"http?.host={json.dumps(host)}"
    name = next((name for name in ("TERRET_PORT", "PORT") if env.get(name)), None)
    if name is not None:
        text = env[name]
        if not (text.isdecimal() and int(text) < 2**16):
            raise CommandError(f'{name}: "{text}" is no port (0 to 65535)')
        yield f"http?.port={int(text)}"


def prepare(plan: Plan) -> None:
    """Makes the data directory and tries the port, while nothing runs. Raises `CommandError`."""
    providers = (e for e in plan.entries if e.plugin and HTTP.name in e.plugin.provides)
    entry = next(providers, None)
    if entry is None:
        raise CommandError("the plugin http is not mounted; add `http: {}` to harness.yml")
    check_data(plan)
    settings: Any = settings_of(entry)
    _try_port(settings.host, settings.port)


def _try_port(host: str, port: int) -> None:
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.EADDRINUSE:
            reason = "it is in use; end what listens there, or choose another one with --port"
        raise CommandError(f"cannot listen on port {port} of {host}: {reason}") from error
