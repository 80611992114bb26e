from collections.abc import Callable
from dataclasses import replace

from terret_agents import (
    PRE_STEP,
    REQUEST,
    STEP_RESULT,
    TURN_CONTINUATION,
    Continuation,
    Continue,
    Enter,
    Reject,
    StepProposal,
    StepResult,
    Stop,
)
from terret_context import Context, Next, plugin
from terret_llm import (
    Finish,
    Llm,
    LlmCallConfig,
    Message,
    ModelSource,
    PluginSource,
    TextBlock,
    ToolCallBlock,
    UserSource,
    create_user_message,
)
from terret_sessions import AssistantMessage, Blocked, ToolResult
from terret_testing import Harness, raw_call, reply, running_harness, say, script
from terret_tools import Tools, tool

Rewrite = Callable[[Message], Message]


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


def rewriting(h: Harness, rewrite: Rewrite) -> None:
    async def result(step: StepResult, call_next: Next[Message]) -> Message:
        return rewrite(await call_next())

    h.ctx.on(STEP_RESULT, result)


def answer(h: Harness) -> Message:
    return next(e.view.message for e in h.events if isinstance(e.view, AssistantMessage))


async def test_the_returned_message_is_logged_and_decides_which_tools_run() -> None:
    """L-216: a call that was taken out is not run, one that was put in is."""
    async with running_harness(model=script(raw_call("drop", "{}"), say("ok"))) as h:
        h.ctx[Tools].register(ping)
        added = ToolCallBlock("mine", "ping", "{}")

        def once(message: Message) -> Message:
            return replace(message, content=(added,)) if message.tool_calls else message

        rewriting(h, once)
        await h.send("go")
        h.assert_transcript("user: go", "call: ping {}", "result: pong", "assistant: ok")
        assert answer(h).content == (added,)


async def test_identity_role_and_source_stay_and_changed_blocks_drop_replay_state() -> None:
    """L-216."""
    state = {"response": "r-1"}
    finish = Finish.stop(replay_state=state)
    model = script(reply(say("x"), finish=finish), reply(say("x"), finish=finish))
    async with running_harness(model=model) as h:
        await h.send("unchanged")
        assert answer(h).source == ModelSource("scripted", "scripted", state)
        ids: list[str] = []

        def forge(message: Message) -> Message:
            ids.append(message.id)
            return Message("forged", "user", (TextBlock("y"),), UserSource())

        rewriting(h, forge)
        await h.send("changed")
        last = h.session.derive_messages()[-1]
        assert (last.id, last.role, last.text) == (ids[0], "assistant", "y")
        assert last.source == ModelSource("scripted", "scripted")


async def test_tool_calls_that_a_listener_adds_to_a_truncated_answer_are_stripped() -> None:
    """L-216, L-074."""
    model = script(reply(say("x"), finish=Finish.max_tokens()))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(ping)
        added = ToolCallBlock("mine", "ping", "{}")
        rewriting(h, lambda message: replace(message, content=(*message.content, added)))
        await h.send("go")
        assert answer(h).content == (TextBlock("x"),)
        assert not any(isinstance(e.view, ToolResult) for e in h.events)


async def test_resolution_header_and_dispatch_use_one_registration() -> None:
    """L-147: a route that is replaced meanwhile serves the next request."""
    first, second = script(say("first")), script(say("second"))
    async with running_harness() as h:

        @plugin(inject=(Llm,))
        def shop(ctx: Context) -> None:
            registration = ctx[Llm].register_adapter(["shop"], first)

            async def exchange(request: object, call_next: Next[object]) -> object:
                if not registration.done:
                    registration.close()
                    ctx[Llm].register_adapter(["shop"], second)
                return await call_next()

            ctx.on("llm/stream", exchange)

        await h.ctx.plugin(shop).ready()

        async def route(proposal: object, call_next: Next[LlmCallConfig]) -> LlmCallConfig:
            return replace(await call_next(), provider="shop", model="m")

        h.ctx.on(REQUEST, route)
        assert await h.send("a") == "first"
        assert await h.send("b") == "second"


async def test_an_example_policy_uses_all_checkpoints_and_leaves_nothing() -> None:
    """L-206: a destructive prompt is blocked; disposal removes every listener."""
    fired: list[str] = []

    @plugin
    def pace(ctx: Context) -> None:
        async def gate(proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
            fired.append("pre-step")
            if any("rm -rf /" in message.text for message in proposal.messages):
                return Reject("destructive prompt")
            decision = await call_next()
            if isinstance(decision, Enter) and proposal.step == 1:
                note = create_user_message("Work in small steps.", PluginSource("pace"))
                decision = Enter([*decision.messages, note])
            return decision

        async def passing(payload: object, call_next: Next[object]) -> object:
            fired.append("other")
            return await call_next()

        async def go_on(
            question: Continuation, call_next: Next[Continue | Stop]
        ) -> Continue | Stop:
            fired.append("continuation")
            return await call_next()

        ctx.on(PRE_STEP, gate)
        for name in ("session-prefix", "prompt-submit", "request", "step-result"):
            ctx.on(f"agent/{name}", passing)
        ctx.on(TURN_CONTINUATION, go_on)
        ctx.on("agent/turn-stop", lambda question: fired.append("other"))
        ctx.on("agent/turn-stopping", lambda event: fired.append("other"))

    async with running_harness(model=script(say("ok"), say("plain"))) as h:
        fiber = h.ctx.plugin(pace)
        await fiber.ready()
        await h.send("hello")
        assert h.transcript[1] == "plugin pace: Work in small steps."
        assert len(fired) == 8
        await h.send("rm -rf /")
        assert h.turn_end == Blocked("destructive prompt")
        await fiber.dispose()
        fired.clear()
        assert await h.send("bye") == "plain"
        assert fired == []
