from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from terret_agents import USER
from terret_context import Context, plugin
from terret_llm import GenerateOptions
from terret_loader import open_harness
from terret_plugin_checkpoint_policy import checkpoint_policy
from terret_sessions import FLUSH, Aborted, Errored, Session
from terret_testing import Harness, Part, call, running_harness, say, script
from terret_tools import EXECUTE, ToolExec, ToolRun, Tools, tool


class Journal:
    """What happened, in order, and a disk that can fail or keep everybody waiting.

    A line is what happened and how many events the log had then.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.session: Session | None = None
        self.fails_at: str | None = None
        self.waits_at: str | None = None
        self.waiting = anyio.Event()

    def note(self, what: str) -> None:
        self.lines.append((what, 0 if self.session is None else len(self.session.events)))

    @property
    def happened(self) -> list[str]:
        return [what for what, _ in self.lines]

    async def flush(self, session: Session) -> None:
        self.session = session
        self.note("flush")
        last = session.events[-1].type
        if last == self.waits_at:
            self.waiting.set()
            await anyio.sleep_forever()
        if last == self.fails_at:
            raise OSError("the disk is full")


@asynccontextmanager
async def harness(journal: Journal, *answers: Part) -> AsyncIterator[Harness]:
    """A harness with the policy, whose model calls the tools `outer` and `inner`."""

    def noted(part: Part) -> object:
        def answer(request: GenerateOptions) -> Part:
            journal.note("model")
            return part

        return answer

    @tool
    async def inner() -> str:
        """Does it."""
        journal.note("inner")
        return "done"

    @tool
    async def outer(run: ToolRun) -> str:
        """Has it done."""
        journal.note("outer")
        nested = ToolExec(call_id="nested", name="inner", agent=run.agent, parent=run.exec)
        return (await h.ctx[Tools].execute(nested)).text

    @plugin(inject=(Tools,))
    def disk(ctx: Context) -> None:
        ctx.on(FLUSH, journal.flush)
        for each in (inner, outer):
            ctx[Tools].register(each)

    model = script(*map(noted, answers))  # type: ignore[arg-type]  # a function of the request
    async with running_harness(plugins=[disk, checkpoint_policy], model=model) as h:
        yield h


async def test_nothing_happens_before_the_log_is_durable() -> None:
    """M-116: Model and tool follow a flush that saw every event there was."""
    journal = Journal()
    async with harness(journal, call("inner"), say("ok")) as h:
        assert await h.send("go") == "ok"

    for (before, kept), (what, length) in zip(journal.lines, journal.lines[1:], strict=False):
        if what != "flush":
            assert (before, kept) == ("flush", length), what
    assert [what for what in journal.happened if what != "flush"] == ["model", "inner", "model"]


async def test_a_nested_call_is_covered_by_the_flush_of_its_caller() -> None:
    """M-116: The log has not changed since; one flush is enough for both bodies."""
    journal = Journal()
    async with harness(journal, call("outer"), say("ok")) as h:
        await h.send("go")

    at = journal.happened.index("outer")
    assert journal.happened[at - 1 : at + 2] == ["flush", "outer", "inner"]


async def test_without_durability_no_step_is_considered() -> None:
    """M-116: The prompt is in the log, and the turn ends with the failure."""
    journal = Journal()
    async with harness(journal, say("never")) as h:
        journal.fails_at = "agent/inbox/spliced"
        await h.send("go")

        assert "model" not in journal.happened
        assert isinstance(h.turn_end, Errored)
        assert "the disk is full" in h.turn_end.failure.message


async def test_without_durability_no_model_is_asked() -> None:
    """M-116: It fails closed, and the next turn goes on when the disk does."""
    journal = Journal()
    async with harness(journal, say("ok")) as h:
        journal.fails_at = "request/context"
        await h.send("go")
        assert "model" not in journal.happened
        assert isinstance(h.turn_end, Errored)
        journal.fails_at = None

        assert await h.send("again") == "ok"


async def test_without_durability_no_tool_runs() -> None:
    """M-116: Its call gets an error result, which the model sees."""
    journal = Journal()
    async with harness(journal, call("inner"), say("ok")) as h:
        journal.fails_at = "tool/call"
        await h.send("go")

        assert "inner" not in journal.happened
        assert "the disk is full" in h.transcript[2]
        assert h.transcript[2].startswith("error: ")


@pytest.mark.parametrize(("point", "next"), [("request/context", "model"), ("tool/call", "inner")])
async def test_a_cancel_during_the_flush_ends_the_turn(point: str, next: str) -> None:
    """M-116: What waited for it does not happen."""
    journal = Journal()
    async with harness(journal, call("inner"), say("never")) as h:
        journal.waits_at = point
        h.agent.send("go")
        await journal.waiting.wait()
        h.agent.cancel(USER)
        await h.agent.when_idle()

        assert journal.happened[-1] == "flush"
        assert next not in journal.happened
        assert h.turn_end == Aborted(USER)


async def test_the_policy_goes_with_its_plugin() -> None:
    """M-116: Afterwards only the end of the turn is flushed."""
    journal = Journal()
    async with harness(journal, call("inner"), say("ok")) as h:
        (fiber,) = h.ctx.fibers(checkpoint_policy)
        await fiber.dispose(check=True)
        await h.send("go")

    assert journal.happened == ["model", "inner", "model", "flush"]


async def test_a_session_that_nobody_keeps_is_no_obstacle() -> None:
    """M-116: Without storage there is nothing to wait for."""
    async with running_harness(plugins=[checkpoint_policy], model=script(say("ok"))) as h:
        assert await h.send("go") == "ok"


async def test_it_is_mounted_from_yaml(tmp_path: Path) -> None:
    """M-116: It has nothing to configure."""
    file = tmp_path / "harness.yml"
    entries = ["llm", "sessions", "system-prompt", "agents", "tools", "checkpoint-policy"]
    file.write_text("plugins:\n" + "".join(f"  {entry}: {{}}\n" for entry in entries))
    async with open_harness(file) as root:
        assert len(root.listeners(EXECUTE)) == 1
