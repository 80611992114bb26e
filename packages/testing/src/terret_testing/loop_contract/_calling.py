"""Tool calls: order, policies, cancellation."""

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from terret_context import Next
from terret_llm import HarnessError, Message, ToolResultBlock, ToolSource
from terret_sessions import Completed, Errored, Sources, ToolCall, ToolResult
from terret_testing import call, raw_call, reply, say, script
from terret_tools import (
    POST_EXECUTE,
    PRE_EXECUTE,
    Accept,
    Decision,
    Deny,
    Executed,
    PostDecision,
    ToolExec,
    ToolRun,
    Tools,
    tool,
)

from ._chapter import Chapter
from ._kit import Bench, codes, note, ping, text_of, vetoing

CALLS = reply(call("a"), call("b"), call("c"))


class Calling(Chapter):
    """Tool calls: order, policies, cancellation."""

    async def test_results_are_logged_and_shown_in_the_order_of_the_model(self) -> None:
        """L-114, L-115: although the first body takes longest, if the loop lets them overlap."""
        async with self.harness(model=script(CALLS, say("ok"))) as h:
            delays = {"a": 30, "b": 20, "c": 0}

            def add(name: str, delay: int) -> None:
                async def body() -> str:
                    for _ in range(delay):
                        await anyio.lowlevel.checkpoint()
                    return f"result {name}"

                safe = tool(name=name, description=name, is_concurrency_safe=lambda args: True)
                h.ctx[Tools].register(safe(body))

            for name, delay in delays.items():
                add(name, delay)
            await h.send("go")
            assert self.lines(h)[1:4] == (
                "result: result a",
                "result: result b",
                "result: result c",
            )
            shown = "".join(text_of(message) for message in h.requests[1].messages)
            assert shown.index("result a") < shown.index("result b") < shown.index("result c")
            assert_paired(h.requests[1].messages)

    async def test_every_call_is_in_the_log_before_its_result_which_cites_it(self) -> None:
        """L-130: also when a policy replaces the content; the id of the call is kept."""
        async with self.harness(model=script(call("ping"), say("ok"))) as h:
            h.ctx[Tools].register(ping)
            replaced = Accept(content="replaced")
            h.ctx.on(POST_EXECUTE, lambda done, call_next: replaced)
            await h.send("go")
            assert "result: replaced" in self.lines(h)
            [(seq, made)] = [(e.seq, e.view) for e in h.events if isinstance(e.view, ToolCall)]
            [(sources, result)] = [
                (e.sources, e.view) for e in h.events if isinstance(e.view, ToolResult)
            ]
            assert sources == Sources([seq])
            assert result.message.source == ToolSource(made.call_id)

    async def test_contexts_reach_the_model_after_all_results_in_their_order(self) -> None:
        """L-120: the context of each call, once all of its answer have ended."""
        async with self.harness(model=script(CALLS, say("ok"))) as h:
            bench = Bench(h, "a", "b", "c")
            bench.release("a", "b", "c")
            await h.send("go")
            self.assert_lines(
                h,
                "user: go",
                "result: result a",
                "result: result b",
                "result: result c",
                "plugin bench: context a",
                "plugin bench: context b",
                "plugin bench: context c",
                "assistant: ok",
            )

    async def test_contexts_of_one_composite_tool_come_after_its_result(self) -> None:
        """L-131: all of them, in the order in which it gave them."""
        async with self.harness(model=script(call("outer"), say("ok"))) as h:

            @tool
            async def outer(run: ToolRun) -> str:
                """Do two things."""
                for text in ("one", "two"):
                    run.defer_context(note(text))
                return "both"

            h.ctx[Tools].register(outer)
            await h.send("go")
            expected = ("result: both", "plugin note: one", "plugin note: two", "assistant: ok")
            assert self.lines(h)[1:] == expected

    async def test_policies_are_asked_in_order_and_a_denial_keeps_its_place(self) -> None:
        """L-119, L-132: denied without dispatch; the model sees the error."""
        async with self.harness(model=script(CALLS, say("ok"))) as h:
            bench = Bench(h, "a", "b", "c")
            bench.release("a", "b", "c")
            asked: dict[str, list[str]] = {"pre": [], "post": []}

            async def gate(call: ToolExec, call_next: Next[Decision]) -> Decision:
                asked["pre"].append(call.name)
                return Deny("not b") if call.name == "b" else await call_next()

            async def after(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
                asked["post"].append(done.exec.name)
                return await call_next()

            h.ctx.on(PRE_EXECUTE, gate)
            h.ctx.on(POST_EXECUTE, after)
            await h.send("go")
            assert asked == {"pre": ["a", "b", "c"], "post": ["a", "b", "c"]}
            assert codes(h) == [None, "DENIED", None]
            assert "error: Error: not b" in self.lines(h)
            assert any("not b" in text_of(message) for message in h.requests[1].messages)
            assert bench.started == ["a", "c"]

    async def test_a_coded_failure_of_a_tool_reaches_the_result(self) -> None:
        """L-129: with its code; the turn goes on."""
        async with self.harness(model=script(call("quota"), say("ok"))) as h:

            @tool
            async def quota() -> str:
                """Fail."""
                raise HarnessError("used up", "OVER_QUOTA")

            h.ctx[Tools].register(quota)
            assert await h.send("go") == "ok"
            assert codes(h) == ["OVER_QUOTA"]

    async def test_arguments_that_are_no_json_reach_the_tool_as_they_are(self) -> None:
        """L-128: invalid JSON as raw text, empty text as an empty object."""
        model = script(reply(raw_call("ping", ""), raw_call("ping", "{oops")), say("ok"))
        async with self.harness(model=model) as h:
            seen: list[object] = []

            async def gate(call: ToolExec, call_next: Next[Decision]) -> Decision:
                seen.append(call.plain_arguments())
                return await call_next()

            h.ctx[Tools].register(ping)
            h.ctx.on(PRE_EXECUTE, gate)
            await h.send("go")
            assert seen == [{}, "{oops"]
            assert codes(h) == [None, "INVALID_ARGS"]
            calls = [e.view.arguments for e in h.events if isinstance(e.view, ToolCall)]
            assert calls == ["", "{oops"]

    async def test_several_failing_bodies_give_results_and_no_exception(self) -> None:
        """L-308: what a body raises is its result; the turn goes on."""
        async with self.harness(model=script(CALLS, say("ok"))) as h:
            for name in ("a", "b", "c"):

                async def body() -> str:
                    raise LookupError("nothing here")

                safe = tool(name=name, description=name, is_concurrency_safe=lambda args: True)
                h.ctx[Tools].register(safe(body))
            assert await h.send("go") == "ok"
            errors = [line for line in self.lines(h) if "nothing here" in line]
            assert (len(errors), h.turn_end) == (3, Completed())

    async def test_a_failure_beside_the_bodies_surfaces_as_itself_and_every_call_is_answered(
        self,
    ) -> None:
        """L-308: unwrapped; the next request is valid, and the agent goes on."""
        async with self.harness(model=script(CALLS, say("ok"))) as h:
            bench = Bench(h, "a", "b", "c")
            bench.release("a", "b", "c")
            veto = vetoing(h, "tool/result")
            await h.send("go")
            veto.close()
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert failed.failure.message.startswith("ValueError: no tool/result")
            made = {e.view.call_id for e in h.events if isinstance(e.view, ToolCall)}
            results = [e.view.message for e in h.events if isinstance(e.view, ToolResult)]
            assert made <= {result.source.to_wire()["callId"] for result in results}
            assert await h.send("and now?") == "ok"
            assert_paired(h.requests[-1].messages)


def assert_paired(messages: Sequence[Message]) -> None:
    """Fails unless each result in a request answers a call of the message before, in order."""
    open_calls: list[str] = []
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                assert block.tool_call_id == open_calls.pop(0)
        if message.role == "assistant":
            assert not open_calls
            open_calls = [block.id for block in message.tool_calls]
    assert not open_calls
