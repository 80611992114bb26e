"""Readers delay nobody, whatever they do."""

from contextlib import aclosing
from pathlib import Path

from served_projects import served_project, write_project
from terret_client import Answer
from terret_tools import Tools
from turn_plans import Plan, add_tools, model_of

MORE = """
  http: {slowReaderBytes: 500}
  permissions: {audit: "off", rules: [{tool: "*", decision: allow}]}
"""


async def test_a_reader_that_stops_reading_delays_nobody(tmp_path: Path) -> None:
    """E-123, E-124, E-125: It is cut, and gets the rest when it reads again."""
    root = write_project(tmp_path, more=MORE)
    model = model_of(Plan([["good"]] * 10, []))
    async with served_project(root, model) as served, served.client() as client:
        add_tools(served.ctx[Tools])
        slow = client.stream_message("shop", "go", session_id="s", message_id="m")
        async with aclosing(slow) as events:
            seen = [await anext(events)]
            reply = await client.send_message("shop", "go", session_id="s", message_id="m")
            assert isinstance(reply, Answer)
            assert served.paths[2:] == []
            seen += [event async for event in events]
        assert "/agents/shop/sessions/s/events" in served.paths
        assert [event.data for event in seen] == [event.data for event in reply.events]
