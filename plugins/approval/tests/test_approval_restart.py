"""A process that ends while somebody is asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from terret_agents import Agents, InquiryClosedError
from terret_context import Container, Next
from terret_llm import Llm
from terret_loader import open_harness
from terret_plugin_approval import ApprovalDecision, ApprovalItem, Approvals
from terret_sessions import Sessions
from terret_testing import SCRIPTED, Part, ScriptedModel, call, say, script
from terret_tools import PRE_EXECUTE, Allow, Ask, Decision, ToolExec, ToolRun, Tools, tool

HARNESS = """\
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  approval: {}
  session-jsonl: {windowMs: 0}
  agent-loop: {}
"""
YES = ApprovalDecision(allow=True, by="ann")


@asynccontextmanager
async def process(path: Path, model: ScriptedModel) -> AsyncIterator[Container]:
    """One life of a process, over the sessions of the ones before."""
    (path / "harness.yml").write_text(HARNESS)
    async with open_harness(path / "harness.yml", env={}) as root:

        @tool
        async def buy() -> str:
            """Buy."""
            return "bought"

        def policy(exec: ToolExec, call_next: Next[Decision]) -> Decision:
            return Ask("costly") if exec.name == "buy" else Allow()

        @tool
        async def helper(run: ToolRun) -> str:
            """Let an agent below work."""
            assert run.agent is not None
            agents = run.agent.ctx[Agents]
            async with await agents.create(session_id="kid", agent_options=SCRIPTED) as created:
                created.agent.send("work")
                await created.agent.when_idle()
            return "helped"

        root[Llm].register_adapter(["scripted"], model)
        root[Tools].register(buy)
        root[Tools].register(helper)
        root.on(PRE_EXECUTE, policy)
        root[Approvals].await_decisions()
        yield root


async def asked(root: Container) -> ApprovalItem:
    with anyio.fail_after(5):
        while not root[Approvals].items():
            await anyio.lowlevel.checkpoint()
    return root[Approvals].items()[0]


async def killed(path: Path, *first: Part) -> str:
    """Leaves the stored log of a process that was killed while it asked; returns the item."""
    live = path / "live"
    live.mkdir()
    async with process(live, script(*first, call("buy"))) as root:
        handle = await root[Agents].create(session_id="s", agent_options=SCRIPTED)
        handle.agent.send("go")
        item = await asked(root)
        for session in root[Sessions].list():
            await root[Sessions].flush(session)
        for file in (live / ".terret").rglob("*"):
            if file.is_file() and file.name != "lock":
                copy = path / file.relative_to(live)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
        return item.id


async def test_an_open_item_is_closed_and_its_call_reported_as_not_run(tmp_path: Path) -> None:
    """E-344, E-097, E-573: The next message starts an ordinary turn; a new ask has a new id."""
    old = await killed(tmp_path)
    model = script(call("buy"), say("ok"))
    async with process(tmp_path, model) as root:
        handle = await root[Agents].resume(resume_session_id="s", agent_options=SCRIPTED)
        session = handle.agent.session
        ends = [each.data for each in session.events if each.type == "approval/decided"]
        assert ends == [{"id": old, "outcome": "cancelled"}]
        codes = [each.data.get("error") for each in session.events if each.type == "tool/result"]
        assert codes == [{"name": "Interrupted", "code": "TOOL_NOT_STARTED"}]
        handle.agent.send("again")
        item = await asked(root)
        assert item.id != old
        await root[Approvals].decide(item.id, YES)
        await handle.agent.when_idle()
        asks = [each for each in session.events if each.type == "approval/asked"]
        ends = [each.data for each in session.events if each.type == "approval/decided"]
        assert (len(asks), len(ends)) == (2, 2)
        assert "did not run" in "".join(str(each.to_wire()) for each in model.requests[0].messages)


@pytest.mark.parametrize("loaded", [False, True])
async def test_a_decision_for_an_old_item_hears_that_it_was_cancelled(
    tmp_path: Path, loaded: bool
) -> None:
    """E-572: Whether its session is used again yet or not; nothing runs."""
    old = await killed(tmp_path)
    async with process(tmp_path, script()) as root:
        if loaded:
            await root[Agents].resume(resume_session_id="s", agent_options=SCRIPTED)
        with pytest.raises(InquiryClosedError) as error:
            await root[Approvals].decide(old, YES)
        assert error.value.outcome == "cancelled"


async def test_an_item_below_another_agent_is_closed_in_both_logs(tmp_path: Path) -> None:
    """E-574: The parent's call may have done something: its outcome is unknown."""
    old = await killed(tmp_path, call("helper"))
    async with process(tmp_path, script()) as root:
        logs = {}
        for id in ("s", "kid"):
            handle = await root[Agents].resume(resume_session_id=id, agent_options=SCRIPTED)
            logs[id] = handle.agent.session.events
        for events in logs.values():
            ends = [each.data for each in events if each.type == "approval/decided"]
            assert ends == [{"id": old, "outcome": "cancelled"}]
        codes = {
            id: [each.data.get("error") for each in events if each.type == "tool/result"]
            for id, events in logs.items()
        }
        unknown = {"name": "Interrupted", "code": "TOOL_OUTCOME_UNKNOWN"}
        assert codes == {"s": [unknown], "kid": [unknown | {"code": "TOOL_NOT_STARTED"}]}


async def test_an_answer_that_was_recorded_is_never_reported_as_not_run(tmp_path: Path) -> None:
    """E-575: Its body may have started."""
    await killed(tmp_path)
    (file,) = (tmp_path / ".terret").rglob("session.jsonl")
    last = file.read_text().splitlines()[-1]
    seq = last.partition('"seq":')[2].partition(",")[0]
    id = last.partition('"id":"')[2].partition('"')[0]
    row = f'{{"type":"approval/decided","seq":{int(seq) + 1},"time":1,'
    file.write_text(f'{file.read_text()}{row}"data":{{"id":"{id}","outcome":"allowed-once"}}}}\n')
    async with process(tmp_path, script()) as root:
        handle = await root[Agents].resume(resume_session_id="s", agent_options=SCRIPTED)
        events = handle.agent.session.events
        codes = [each.data.get("error") for each in events if each.type == "tool/result"]
        assert codes == [{"name": "Interrupted", "code": "TOOL_OUTCOME_UNKNOWN"}]


async def test_what_was_allowed_for_the_session_survives_a_restart(tmp_path: Path) -> None:
    """E-330: The log alone knows it."""
    async with process(tmp_path, script(call("buy"), say("ok"))) as root:
        handle = await root[Agents].create(session_id="s", agent_options=SCRIPTED)
        handle.agent.send("go")
        item = await asked(root)
        await root[Approvals].decide(item.id, ApprovalDecision(allow=True, remember=True))
        await handle.agent.when_idle()
        await handle.dispose()
    async with process(tmp_path, script(call("buy"), say("ok"))) as root:
        handle = await root[Agents].resume(resume_session_id="s", agent_options=SCRIPTED)
        handle.agent.send("again")
        await handle.agent.when_idle()
        events = handle.agent.session.events
        assert len([each for each in events if each.type == "approval/asked"]) == 1
