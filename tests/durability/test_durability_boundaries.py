"""A log that ends behind any of its events, as a kill at that moment leaves it."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from durable_checks import BACKENDS, check_invariants, storage_of, stored_events, write_harness
from durable_plugin import check_conversation
from durable_process import SESSION, Zygote, needs_fork
from terret_plugin_loop_events import Projection, check
from terret_plugin_loop_events.types import LoopEvent
from terret_sessions import (
    Session,
    SessionEvent,
    SessionHeader,
    ToolCall,
    ToolResult,
    repair_closers,
)

pytestmark = [needs_fork, pytest.mark.parametrize("backend", BACKENDS)]
SEED = 3  # of a turn with several calls


def told(events: Sequence[SessionEvent]) -> list[LoopEvent]:
    """What a client is told of these events."""
    projection = Projection(SESSION, "main")
    return [output for event in events for output in projection.feed(event)]


async def reloaded(
    folder: Path, backend: str, events: Sequence[SessionEvent]
) -> Sequence[SessionEvent]:
    """These events after they were stored, and closed by whoever loads them next."""
    storage = storage_of(folder, backend)
    header = SessionHeader(id=SESSION, created_at=0)
    await storage.acquire(SESSION)
    await storage.append_batch(header, events, materialized=False)
    stored = await storage.load_stored(SESSION)
    assert stored is not None
    await storage.commit_repair(header, stored.torn_marker, repair_closers(stored.events))
    await storage.close()
    log = await storage_of(folder, backend).load_stored(SESSION)
    assert log is not None
    return log.events


def test_a_turn_that_ends_anywhere_is_told_to_client_and_model(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """E-496, M-117: The old events and an error; calls that did not run are named."""
    write_harness(tmp_path, backend)
    zygote.start(tmp_path, ["turn"], seed=SEED).join()
    events = stored_events(tmp_path, backend)
    assert sum(isinstance(event.view, ToolCall) for event in events) > 2
    whole = told(events)
    for end in range(1, len(events)):
        before = told(events[:end])
        after = anyio.run(reloaded, tmp_path / str(end), backend, events[:end])
        outputs = told(after)
        assert outputs[: len(before)] == before == whole[: len(before)]
        check(outputs, complete=bool(outputs))
        if len(after) > end:
            assert outputs[-1]["type"] == "error"
        anyio.run(check_invariants, after)
        check_conversation(Session(seed=after).derive_messages())
        check_calls(events[:end], after[end:])


def check_calls(events: Sequence[SessionEvent], closers: Sequence[SessionEvent]) -> None:
    """Whether a call ran is told by whether the log says that it began."""
    began = {event.view.call_id for event in events if isinstance(event.view, ToolCall)}
    for event in closers:
        if isinstance(event.view, ToolResult):
            assert event.view.error is not None
            expected = event.view.block.tool_call_id in began
            assert (event.view.error.code == "TOOL_OUTCOME_UNKNOWN") == expected
