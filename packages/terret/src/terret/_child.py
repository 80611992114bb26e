"""The service as `terret dev` runs it: it follows what changes, and says when it has to restart."""

import os
import sys
import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from terret_context import Container, FiberState
from terret_loader import ENTRY, Fault, HarnessConfigError, Loader, Plan

from ._boot import Boot
from ._changes import Effect, Running, real
from ._errors import DONE
from ._folders import open_folders
from ._interrupts import interrupts
from ._link import GRACE, Link, follow
from ._printing import say, say_change
from ._services import AGENT_FOLDERS
from ._serving import LOG, Service, addressed, faults_of_agents, prepare


async def serve_under(link: Link, boot: Boot, host: str | None, port: int | None) -> int:
    """Checks, waits to be let, and serves like `serve`, but without the agents that have faults."""
    boot = addressed(boot, host, port)
    plan = boot.check()
    link.send(checked=True, faults=[str(fault) for fault in await _faults(boot, plan)])
    with anyio.CancelScope() as everything:
        async with interrupts(everything.cancel) as signals:
            child = _Child(boot, link)
            follow(link, child.take)
            await child.allowed.wait()
            if plan.blocking(safe=boot.safe):
                raise HarnessConfigError(plan.faults)
            prepare(plan)
            async with boot.open(defaults=LOG) as root:
                child.begin(root, await faults_of_agents(root))
                return await Service(root, signals, grace=GRACE).run()
    return DONE


async def _faults(boot: Boot, plan: Plan) -> Iterable[Fault]:
    """Finds what is wrong with the code and the files, without running any of it."""
    if plan.blocking(safe=boot.safe) or not any(
        e.plugin and AGENT_FOLDERS.name in e.plugin.provides for e in plan.entries
    ):
        return plan.faults
    async with open_folders(boot) as folders:
        return (*plan.faults, *folders.faults)


class _Child:
    """Does what has to be done when files have changed."""

    def __init__(self, boot: Boot, link: Link) -> None:
        self.allowed = anyio.Event()
        self._folder = boot.folder.resolve()
        self._env_file = real(boot.variables)
        self._link = link
        self._token = current_token()
        self._root: Container | None = None
        self._begun = threading.Event()
        self._known: set[str] = set()

    def begin(self, root: Container, faults: Iterable[Fault]) -> None:
        """Notes what runs, and what was found wrong with it."""
        self._root = root
        root.on(ENTRY, say_change)
        self._tell(str(fault) for fault in faults)
        self._begun.set()

    def take(self, message: dict[str, Any]) -> None:
        """Handles a message of `terret dev`, in the thread that receives it."""
        if "changed" not in message:
            from_thread.run_sync(self.allowed.set, token=self._token)
            return
        self._begun.wait()
        assert self._root is not None
        self._follow(self._root, [Path(path) for path in message["changed"]])

    def _follow(self, root: Container, paths: Sequence[Path]) -> None:
        running = self._running(root)
        effects = {path: running.effects(path) for path in paths}
        code = [path for path, found in effects.items() if Effect.RESTART in found]
        if code:
            self._link.send(restart=os.path.relpath(code[0]))
        elif found := {effect for some in effects.values() for effect in some}:
            from_thread.run(self._refresh, root, found, token=self._token)

    def _running(self, root: Container) -> Running:
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        return Running(
            root=self._folder,
            env_file=self._env_file,
            documents={real(file) for file in root[Loader].plan.files},
            modules={real(Path(file)) for file in modules if file is not None},
        )

    async def _refresh(self, root: Container, effects: Collection[Effect]) -> None:
        try:
            await self._read_again(root, effects)
        except Exception as error:  # the next change is followed all the same
            root.report(error, label="changes")

    async def _read_again(self, root: Container, effects: Collection[Effect]) -> None:
        had_faults = bool(self._known or root[Loader].faults)
        if Effect.RECONCILE in effects:
            before = _failed(root)
            await root[Loader].reconcile()
            if _failed(root) - before:  # going back to the last document did not help either
                self._link.send(restart="harness.yml")
                return
        folders = root.get(AGENT_FOLDERS)
        if Effect.RELOAD in effects and folders is not None:
            available = set(folders.definitions)
            self._tell(map(str, await folders.reload()))
            if available != set(folders.definitions):
                say(f"agents: {', '.join(folders.definitions) or 'none'}")
        if had_faults and not (self._known or root[Loader].faults):
            say("no faults any more")

    def _tell(self, faults: Iterable[str]) -> None:
        """Prints faults of agents that are new, and lets `terret dev` know all of them."""
        found = dict.fromkeys(faults)
        for text in found:
            if text not in self._known:
                say(text)
        self._known = set(found)
        self._link.send(faults=list(found))


def _failed(root: Container) -> set[str]:
    """Names the entries that have failed."""
    loader = root[Loader]
    fibers = ((entry.path, loader.fiber(entry.path)) for entry in loader.entries)
    return {path for path, fiber in fibers if fiber and fiber.state is FiberState.FAILED}
