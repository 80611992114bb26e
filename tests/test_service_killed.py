"""A service that is killed in the middle of a turn, and started again."""

import signal
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest
from anyio import to_thread

from programs import free_port, new_project, program
from terret_client import Answer, ApiError, ApprovalPending, Event, TerretClient
from terret_plugin_loop_events import check

PAY = """
from pathlib import Path
from terret_tools import tool

@tool
def pay(to: str) -> str:
    '''Pay somebody.'''
    with Path("paid.txt").open("a") as file:
        file.write(to + "\\n")
    return "paid"
"""
PAY_ANN = 'use pay {"to": "Ann"}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    new_project(tmp_path, more="  permissions: {rules: [{tool: pay, decision: ask}]}\n")
    (tmp_path / "agents/main/tools/payments.py").write_text(PAY)
    (tmp_path / "agents/main/permissions.yml").unlink()
    return tmp_path


@pytest.fixture
def words() -> list[str]:
    return ["serve", "--port", str(free_port())]


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_killed_turn_is_closed_and_the_conversation_goes_on(
    project: Path, words: list[str]
) -> None:
    """E-127, E-344, E-572, E-573: The client that was connected comes back by itself."""
    with ExitStack() as services:
        service = services.enter_context(program(project, *words))
        url = await to_thread.run_sync(service.address)
        async with TerretClient(url) as client:
            seen = []
            async with aclosing(client.stream_message("main", PAY_ANN, session_id="s")) as events:
                async for event in events:
                    seen.append(event)
                    if event.type == "approval:pending":
                        service.end(signal.SIGKILL)
                        service = services.enter_context(program(project, *words))
                        await to_thread.run_sync(service.address)
            await it_was_closed(client, seen)
            assert not (project / "paid.txt").exists()
            reply = await client.send_message("main", PAY_ANN, session_id="s")
            assert isinstance(reply, ApprovalPending)
            reply = await client.approve_call(reply.id)
            assert isinstance(reply, Answer)
            assert reply.text == "Old: paid"
    assert (project / "paid.txt").read_text() == "Ann\n"


async def it_was_closed(client: TerretClient, seen: list[Event]) -> None:
    """The turn has an end, its call did not run, its item is settled, and nothing was lost."""
    check([event.data for event in seen], agent="main")
    *_, pending, error = seen
    assert error.data == {"type": "error", "error": "interrupted"}
    with pytest.raises(ApiError) as refused:
        await client.approve_call(pending.data["id"])
    assert (refused.value.code, refused.value.body["outcome"]) == ("already_decided", "cancelled")
    state = await client.get_session_history("main", "s")
    assert (state.status, state.pending) == ("idle", ())
    assert "did not run" in str(state.history[-1])
    async with aclosing(client.stream_events("main", "s", after="0")) as events:
        assert [event async for event in events] == seen
