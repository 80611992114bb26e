"""Programs: what they see, what the model sees of them, what they cannot break."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from terret_agents import USER, Agents
from terret_context import Effect, Next
from terret_llm import ToolResultBlock
from terret_loader import open_harness
from terret_plugin_loop_codeact import loop_codeact
from terret_sessions import Aborted, Completed, Errored, ToolCall, ToolResult
from terret_testing import SCRIPTED, Harness, MemorySessions, call, running_harness, say, script
from terret_tools import (
    POST_EXECUTE,
    PRE_EXECUTE,
    Accept,
    Decision,
    Deny,
    Executed,
    PostDecision,
    Tool,
    ToolExec,
    ToolRun,
    Tools,
    tool,
)


@tool
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
async def greet(name: str, loud: bool = False) -> str:
    """Greet somebody."""
    return f"Hello {name}" + "!" * loud


def code(*lines: str) -> str:
    return "\n".join(["Let me see.", "```python", *lines, "```"])


@asynccontextmanager
async def harness(*answers: str, **config: object) -> AsyncIterator[Harness]:
    model = script(*[say(answer) for answer in answers])
    async with running_harness(loop=(loop_codeact, config), model=model) as h:
        h.ctx[Tools].register(add)
        h.ctx[Tools].register(greet)
        yield h


def shown(h: Harness, request: int = -1) -> str:
    """The last message of a request."""
    return h.requests[request].messages[-1].text


async def test_a_program_gets_values_and_the_model_what_it_printed() -> None:
    program = code("total = sum(add(a=n, b=1) for n in range(3))", "print('total', total)")
    async with harness(program, "It is 6.") as h:
        assert await h.send("go") == "It is 6."
        assert shown(h) == "total 6.0\n"
        assert len([e for e in h.events if isinstance(e.view, ToolCall)]) == 3


async def test_names_are_kept_and_the_value_of_a_last_line_is_shown() -> None:
    async with harness(code("x = 20"), code("x + 1"), "done") as h:
        await h.send("go")
        assert (shown(h, 1), shown(h, 2)) == ("(no output)", "21\n")


async def test_arguments_can_be_given_by_position_as_the_prompt_shows_them() -> None:
    async with harness(code("print(greet('Ada', True))"), "done") as h:
        await h.send("go")
        assert shown(h) == "Hello Ada!\n"
        assert "def greet(name: str, loud: bool = False):" in str(h.requests[0].system)


async def test_the_model_is_never_sent_tools_or_tool_calls() -> None:
    async with harness(code("greet('Ada')", "greet('Bob')"), "done") as h:
        await h.send("go")
        assert [r.tools for r in h.requests] == [(), ()]
        blocks = [b for r in h.requests for m in r.messages for b in m.content]
        assert not any(isinstance(block, ToolResultBlock) for block in blocks)
        assert not any(m.tool_calls for r in h.requests for m in r.messages)
        assert len([e for e in h.events if isinstance(e.view, ToolResult)]) == 2


async def test_the_output_of_programs_joins_a_history_that_is_not_read_again() -> None:
    """L-226: no request saw the results whose place it takes."""
    async with harness(code("greet('Ada')", "greet('Bob')"), code("greet('Eve')"), "done") as h:
        await h.send("go")
        assert h.session.surface.replace_generation == 2
        assert h.session.rewrites == 0
        assert list(h.requests[2].messages[:3]) == list(h.requests[1].messages)


async def test_a_denied_call_raises_in_the_program_which_may_go_on() -> None:
    program = code("try:", "    greet('Eve')", "except ToolError as e:", "    print('no:', e)")
    async with harness(program, "done") as h:

        async def gate(call: ToolExec, call_next: Next[Decision]) -> Decision:
            return Deny("not Eve")

        h.ctx.on(PRE_EXECUTE, gate)
        await h.send("go")
        assert shown(h) == "no: Error: not Eve\n"


async def test_what_a_policy_takes_out_of_a_result_stays_out_of_the_program() -> None:
    async with harness(code("print(add(1, 2))"), "done") as h:

        async def hide(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
            return Accept(content="[hidden]")

        h.ctx.on(POST_EXECUTE, hide)
        await h.send("go")
        assert shown(h) == "[hidden]\n"


async def test_an_exception_is_shown_with_the_line_and_ends_only_the_program() -> None:
    async with harness(code("x = 1", "1 / 0", "print('never')"), code("x"), "done") as h:
        await h.send("go")
        assert 'File "<program 1>", line 2, in <module>' in shown(h, 1)
        assert "    1 / 0\n" in shown(h, 1)
        assert "_worker" not in shown(h, 1)
        assert "ZeroDivisionError" in shown(h, 1)
        assert shown(h, 2) == "1\n"


FENCED = [
    ("```Python\nprint(1)\n```", "1\n"),
    ("  ```py title='a'\nprint(1)\n  ```  \nbye", "1\n"),
    ("````python\nprint('```')\n```\n````", "SyntaxError"),
    ("```python\nprint(1)", "1\n"),
    ("```text\n```python\n```\n```python\nprint(2)\n```", "2\n"),
    ("```python\n```", "(no output)"),
]
PROSE = [
    "no code",
    "```\nx\n```",
    "```bash\nls\n```",
    "inline ```python``` is none",
    "```text\n```python\n```",
]


@pytest.mark.parametrize(("answer", "expected"), FENCED)
async def test_the_program_is_the_first_block_of_python(answer: str, expected: str) -> None:
    async with harness(answer, "done") as h:
        await h.send("go")
        assert expected in shown(h)


@pytest.mark.parametrize("answer", PROSE)
async def test_an_answer_without_a_block_of_python_is_the_last_one(answer: str) -> None:
    async with harness(answer) as h:
        assert await h.send("go") == answer
        assert h.turn_end == Completed()


async def test_tools_are_shown_as_functions_with_names_that_take_nothing_from_python() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 10, "description": "How many."},
            "query": {"type": "string"},
            "order": {"enum": ["asc", "desc"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "user": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["query"],
    }

    async def execute(run: ToolRun, /, **args: object) -> str:
        return repr(args)

    async with harness(code("print(list_('x', limit=3))"), "done") as h:
        foreign = Tool(
            name="list", description="Find {{things}}.", parameters=parameters, execute=execute
        )
        h.ctx[Tools].register(foreign)
        await h.send("go")
        assert (
            'def list_(query: str, limit: int = 10, order: "asc" | "desc" = None, '
            "tags: list[str] = None, user: str | None = None):\n"
            '    """Find { {things}}.\n    limit: How many."""'
        ) in str(h.requests[0].system)
        assert shown(h) == "{'query': 'x', 'limit': 3}\n"


@pytest.mark.parametrize("command", [["no-such-python"], ["false"]])
async def test_a_command_that_starts_no_python_fails_the_turn_and_is_named(
    command: list[str],
) -> None:
    async with harness(code("1"), "fine", command=command) as h:
        await h.send("go")
        assert isinstance(h.turn_end, Errored)
        assert h.turn_end.failure.code == "NO_INTERPRETER"
        assert command[0] in h.turn_end.failure.message
        assert await h.send("again") == "fine"


def flooding(line: str) -> str:
    """A program that writes a line to whatever it can, the connection to the host included."""
    sent = f"{line}\n".encode()
    write = f"    with contextlib.suppress(OSError): os.write(fd, {sent!r})"
    return f"import contextlib, os\nfor fd in range(3, 20):\n{write}\nprint('flooded')"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("def f(:", "SyntaxError"),
        ("greet()", "ToolError"),
        ("greet('a', True, 3)", "greet() takes the arguments name, loud"),
        ("greet('a', name='b')", "greet() takes the arguments name, loud"),
        ("greet(object())", "not JSON serializable"),
        ("greet(float('nan'))", "ValueError"),
        ("input()", "EOFError"),
        ("raise SystemExit", "(no output)"),
        ("print('\\ud800')", "\\ud800"),
        ("import os; os.write(1, b'\\xff raw')", "\ufffd raw"),
        ("import subprocess; subprocess.run(['echo', 'child'])", "child\n"),
        ("import sys; print('err', file=sys.stderr)", "err\n"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt\n"),
        ("print(greet('\\ud800'))", "Hello \ufffd\n"),
        ("class Stop(BaseException): pass\nraise Stop", "[the program ended the interpreter]"),
        (flooding("nonsense"), "it broke the connection"),
        (flooding('{"done": true}'), "it broke the connection"),
        (flooding('{"call": "gone", "args": [], "kwargs": {}}'), "flooded\n"),
    ],
)
async def test_whatever_a_program_does_the_model_is_told_and_the_turn_goes_on(
    line: str, expected: str
) -> None:
    async with harness(code(line), "done") as h:
        assert await h.send("go") == "done"
        assert expected in shown(h)
        assert h.turn_end == Completed()


async def test_a_traceback_shows_the_program_and_nothing_of_the_interpreter() -> None:
    async with harness(code("def f():", "    greet(1, 2, 3)", "f()"), "done") as h:
        await h.send("go")
        lines = [line for line in shown(h).splitlines() if line.startswith("  File")]
        assert lines == [
            '  File "<program 1>", line 3, in <module>',
            '  File "<program 1>", line 2, in f',
        ]


async def test_a_fork_neither_ends_the_program_nor_calls_tools() -> None:
    fork = ("import os", "child = os.fork()", "if child: os.waitpid(child, 0)")
    calling = ("try: greet('Ada')", "except ToolError as e: print(e)")
    async with harness(code(*fork), code(*fork, *calling), code("'third'"), "done") as h:
        await h.send("go")
        assert "in the first process of the program only" in shown(h, 2)
        assert shown(h, 3) == "'third'\n"


async def test_a_function_whose_tool_has_gone_says_so() -> None:
    """The name is still there from the program before."""
    async with harness(code("here()"), code("here()"), "done") as h:
        effects: list[Effect] = []

        @tool
        async def here() -> str:
            """Tell that it is there, for the last time."""
            h.ctx.spawn(effects[0].aclose)
            return "here"

        effects.append(h.ctx[Tools].register(here))
        await h.send("go")
        assert "ToolError: here() is gone" in shown(h)
        assert h.turn_end == Completed()


async def test_long_output_keeps_its_beginning_and_its_end() -> None:
    lines = ("print('begin' + 'x' * 100_000)", "print('y' * 100_000 + 'end')")
    async with harness(code(*lines), "done", maxOutput=1000) as h:
        await h.send("go")
        text = shown(h)
        assert text.startswith("beginxxx")
        assert text.endswith("yyyend\n")
        assert len(text) < 1100
        assert "bytes are left out here" in text


async def test_a_program_that_takes_too_long_costs_the_interpreter() -> None:
    program = code("x = 1", "print('waiting', flush=True)", "import time; time.sleep(600)")
    async with harness(program, code("x"), "done", timeout=0.5) as h:
        await h.send("go")
        assert shown(h, 1) == "waiting\n\n[the program was stopped after 0.5 seconds]"
        assert shown(h, 2).startswith("[a new interpreter")
        assert "NameError" in shown(h, 2)


async def test_the_time_of_tools_is_not_that_of_the_program() -> None:
    waited = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait longer than programs may."""
        await anyio.sleep(0.4)
        waited.set()
        return "waited"

    async with harness(code("print(wait())"), "done", timeout=0.3) as h:
        h.ctx[Tools].register(wait)
        await h.send("go")
        assert shown(h) == "waited\n"


async def test_a_program_that_ends_the_interpreter_is_reported() -> None:
    async with harness(code("import os; os._exit(3)"), code("1"), "done") as h:
        await h.send("go")
        assert "[the program ended the interpreter]" in shown(h, 1)
        assert shown(h, 2) == "[a new interpreter: the names of earlier programs are gone]\n1\n"


async def test_a_cancel_kills_the_program_with_its_children(tmp_path: Path) -> None:
    """The next program gets a new interpreter; the model is told what became of the first."""
    pids = tmp_path / "pids"
    program = code(
        "import os, subprocess",
        "child = subprocess.Popen(['sleep', '600'])",
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
        "started()",
        "while True: pass",
    )
    started = anyio.Event()

    @tool(name="started")
    async def announce() -> str:
        """Tell that it has started."""
        started.set()
        return "ok"

    async with harness(program, code("1"), "done") as h:
        h.ctx[Tools].register(announce)
        h.agent.send("go")
        await started.wait()
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert h.turn_end == Aborted(USER)
        await gone(*map(int, pids.read_text().split()))
        await h.send("again")
        texts = [message.text for message in h.requests[1].messages]
        assert "[the program was not run to its end: the turn was cancelled]" in texts
        assert shown(h).startswith("[a new interpreter")


async def gone(*pids: int) -> None:
    """Waits until these processes have ended."""

    def lives(pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"

    with anyio.fail_after(10):
        while any(map(lives, pids)):  # noqa: ASYNC110 - the system tells nobody
            await anyio.sleep(0.01)


async def test_the_interpreter_ends_with_its_agent() -> None:
    async with harness(code("import os; os.getpid()"), "done") as h:
        await h.send("go")
        pid = int(shown(h))
        os.kill(pid, 0)
    await gone(pid)


HOST = """
import sys, anyio
from terret_testing import running_harness, say, script

async def main():
    model = script(say(sys.argv[1]))
    async with running_harness(loop="loop-codeact", model=model) as h:
        await h.send("go")

anyio.run(main)
"""


async def test_a_program_ends_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = code("import os", f"open({str(pid)!r}, 'w').write(str(os.getpid()))", "while 1: pass")
    command = [sys.executable, "-c", HOST, program]
    async with await anyio.open_process(command, stdout=None, stderr=None) as host:
        with anyio.fail_after(60):
            while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - files tell nobody
                await anyio.sleep(0.01)
        host.kill()
    await gone(int(pid.read_text()))


async def test_only_listed_variables_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    program = code("import os", "print(os.environ.get('API_KEY'), os.environ.get('LANG'))")
    async with harness(program, "done") as h:
        await h.send("go")
        assert shown(h) == "None C.UTF-8\n"


async def test_an_answer_with_several_programs_runs_the_first_and_says_so() -> None:
    async with harness(code("print(1)") + "\nand\n" + code("print(2)"), "done") as h:
        await h.send("go")
        assert shown(h) == "1\n\n[only the first of 2 programs was run]"


async def test_native_tool_calls_are_dropped_and_the_model_is_told() -> None:
    model = script(call("greet", name="Ada"), say("sorry"))
    async with running_harness(loop="loop-codeact", model=model) as h:
        h.ctx[Tools].register(greet)
        assert await h.send("go") == "sorry"
        assert "no tool calls" in shown(h)
        assert not any(message.tool_calls for message in h.session.derive_messages())


async def test_results_that_a_crash_left_without_output_are_told_when_it_goes_on() -> None:
    """S-075: the repaired call is one of them; the next request holds no result of a tool."""
    kept = MemorySessions()
    model = script(say(code("greet('Ada')", "greet('Bob')")), say("done"), say("on"))
    async with running_harness(
        loop="loop-codeact", plugins=[kept.plugin], model=model, session_id="s"
    ) as h:
        h.ctx[Tools].register(greet)
        await h.send("go")
    types = [row.partition(b'"type":"')[2].partition(b'"')[0] for row in kept.rows["s"]]
    second_call = [n for n, each in enumerate(types) if each == b"tool/call"][1]
    del kept.rows["s"][second_call + 1 :]
    async with running_harness(loop="loop-codeact", plugins=[kept.plugin], model=model) as h:
        async with await h.ctx[Agents].resume(
            resume_session_id="s", agent_options=SCRIPTED
        ) as resumed:
            resumed.agent.send("go on")
            await resumed.agent.when_idle()
        texts = [message.text for message in h.requests[-1].messages]
        [lost] = [text for text in texts if text.startswith("The program was interrupted.")]
        assert "- Hello Ada" in lost
        assert lost.count("\n- ") == 2
        blocks = [b for m in h.requests[-1].messages for b in m.content]
        assert not any(isinstance(block, ToolResultBlock) for block in blocks)


async def test_it_boots_from_yaml(tmp_path: Path) -> None:
    document = tmp_path / "harness.yml"
    document.write_text(
        "plugins:\n"
        "  llm: {}\n"
        "  sessions: {}\n"
        "  system-prompt: {}\n"
        "  agents: {}\n"
        "  tools: {}\n"
        "  loop-codeact:\n"
        "    timeout: 5\n"
        "    agents: [{id: main, provider: local}]\n",
        "utf-8",
    )
    async with open_harness(document) as root:
        await root.settle()
        agent = root[Agents].named("main")
        assert agent is not None
        assert agent.options.provider == "local"
