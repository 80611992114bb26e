"""One line of JSON for each decision, in a file for each day."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from pydantic_core import to_json

from terret_agents import Clock, timestamp
from terret_tools import Allow, Deny, ToolExec

from ._scope import Scope

ArgumentsForm: TypeAlias = Literal["digest", "full", "none"]


class Audit:
    """Writes the lines, one after the other."""

    def __init__(self, folder: Path, form: ArgumentsForm, clock: Clock) -> None:
        self._folder = folder
        self._form = form
        self._clock = clock
        self._turn = anyio.Lock()

    async def write(self, scope: Scope, call: ToolExec, decision: Allow | Deny) -> None:
        """Adds the line of a decision; raises `OSError`."""
        now = self._clock.now()
        row = {"time": timestamp(now), **_row(scope, call, decision), **self._arguments(call)}
        path = self._folder / f"{now:%Y-%m-%d}.jsonl"
        async with self._turn:
            await anyio.to_thread.run_sync(_append, path, to_json(row) + b"\n")

    def _arguments(self, call: ToolExec) -> Mapping[str, object]:
        if self._form == "none":
            return {}
        arguments = call.plain_arguments()
        if self._form == "full":
            return {"arguments": arguments}
        return {"argumentsDigest": sha256(to_json(arguments)).hexdigest()}


def _row(scope: Scope, call: ToolExec, decision: Allow | Deny) -> dict[str, object]:
    grounds = decision.grounds
    approval = grounds.approval if grounds else None
    row = {
        "scope": scope.to_wire(),
        "session": call.agent.id if call.agent else None,
        "call": call.call_id,
        "tool": call.name,
        "decision": "deny" if isinstance(decision, Deny) else "allow",
        "source": grounds.source if grounds else None,
        "rule": grounds.rule if grounds else None,
        "reason": grounds.reason if grounds else None,
        "by": approval.by if approval else None,
    }
    return {key: value for key, value in row.items() if value is not None}


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(line)
