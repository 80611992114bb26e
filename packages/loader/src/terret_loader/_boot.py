"""The whole start of a harness, as one block."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from terret_context import Container, Context, plugin

from ._faults import HarnessConfigError
from ._host import Hooks
from ._plan import Checker
from ._service import Loader


@asynccontextmanager
async def open_harness(
    path: str | Path,
    *,
    sets: Sequence[str] = (),
    defaults: Sequence[str] = (),
    safe: bool = False,
    env: Mapping[str, str] | None = None,
    watch: bool = False,
    patience: float = 60.0,
    grace: float = 10.0,
    if_missing: str | None = None,
    hooks: Hooks | None = None,
) -> AsyncIterator[Container]:
    """Starts the harness of a `harness.yml` and gives the root context; stops it in order.

    `sets` are texts `PATH=VALUE` that win over the files (`ENTRY?.KEY=VALUE`: if there is such an
    entry), `defaults` those that lose. With `safe`, entries that cannot run are skipped instead of
    stopping the start. `env` is what `${env:}` sees, `os.environ` by default. With `watch`, the
    harness follows its files. A plugin that is still loading after `patience` seconds has failed;
    what ends has `grace` seconds for each of its steps. `if_missing` is the document while there is
    no file.
    Raises `HarnessConfigError` with all faults: before anything is mounted, or after an ordered
    teardown if an entry does not run.
    """
    checker = Checker(hooks, env, sets=sets, defaults=defaults, if_missing=if_missing)
    try:
        plan = checker.document(Path(path))
        if plan.blocking(safe=safe):
            raise HarnessConfigError(plan.faults)

        @plugin(name="loader", provides=(Loader,))
        def load(ctx: Context) -> None:
            loader = Loader(ctx, root, checker, Path(path), safe=safe, patience=patience)
            ctx.provide(Loader, loader)

        async with Container(grace=grace) as root:
            await root.plugin(load).ready()
            await root[Loader].start(plan)
            if watch:
                root[Loader].watch()
            yield root
    finally:
        checker.resolver.close()
