"""What goes wrong ends with one clear line, the right exit code, and a session that goes on."""

import pytest

from end_to_end import ChatServer, Project

QUESTION = "What is 17 + 25? Use the add tool."
FAILURES = {
    "500": "answered HTTP 500: the server is on fire [SERVER]",
    "401": "answered HTTP 401: bad key [removed]; "
    "no key was sent: apiKeyEnv names the variable that holds it [AUTH]",
    "cut": "closed the stream in the middle of the answer [STREAM_CLOSED]",
    "garbage": "sent no JSON: a page in HTML: Please log in [MALFORMED_RESPONSE]",
    "model": "answered HTTP 404: The model `test` does not exist [UNKNOWN_MODEL]",
}


@pytest.mark.parametrize("behaviour", FAILURES)
def test_a_failing_server_fails_the_turn_and_the_session_goes_on(
    project: Project, chat_server: ChatServer, behaviour: str
) -> None:
    project.harness(chat_server.url(behaviour))
    failed = project.run("run", "--quiet", "--session", "s", QUESTION)
    assert (failed.returncode, failed.stdout) == (1, "")
    error, way_out = failed.stderr.splitlines()
    assert error == f"error: openai at 127.0.0.1:{chat_server.port} {FAILURES[behaviour]}"
    assert way_out == 'go on with: terret run --session s "..."'
    project.harness(chat_server.url("ok"))
    ended = project.run("run", "--session", "s", "again")
    assert (ended.returncode, ended.stdout) == (0, "The result is 42.\n")


def test_a_dead_endpoint_is_named(project: Project) -> None:
    project.harness("http://127.0.0.1:9/v1")
    failed = project.run("run", "--quiet", "--session", "s", QUESTION)
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[0] == (
        "error: cannot connect to openai at 127.0.0.1:9: Connection refused; "
        "does the server run? [TRANSPORT]"
    )


RAISING_TOOL = """
from terret_context import plugin
from terret_tools import Tools, tool

@tool
def add(a: float, b: float) -> float:
    '''Add two numbers, badly.'''
    print("printed by a tool")
    raise ValueError("the calculator is broken")

@plugin(inject=(Tools,))
def broken(ctx):
    ctx[Tools].register(add)
"""


def test_a_tool_that_raises_and_prints_is_told_to_the_model(
    project: Project, chat_server: ChatServer
) -> None:
    """The turn goes on, and standard output has the answer only."""
    project.write("broken.py", RAISING_TOOL)
    project.harness(chat_server.url("ok"), tools="broken: {use: ./broken.py}")
    ended = project.run("run", QUESTION)
    answer = "The result is Error: ValueError: the calculator is broken.\n"
    assert (ended.returncode, ended.stdout) == (0, answer)


KEY = ("--set", "llm-openai.apiKeyEnv=OPENAI_API_KEY")


def test_a_missing_key_names_its_variable(project: Project) -> None:
    project.harness("https://models.invalid/v1")
    failed = project.run("run", "--quiet", QUESTION, *KEY)
    assert failed.returncode == 1
    assert "OPENAI_API_KEY is not set" in failed.stderr


def test_a_key_may_stand_in_the_env_file(project: Project, chat_server: ChatServer) -> None:
    project.harness(chat_server.url("ok"))
    project.write(".env", "OPENAI_API_KEY=sk-from-the-file\n")
    ended = project.run("run", "hi", "--set", "tools-demo.enabled=false", *KEY)
    assert ended.returncode == 0, ended.stderr
    assert chat_server.keys == ["Bearer sk-from-the-file"]


RAISING_PLUGIN = """
from terret_context import plugin

@plugin
def broken(ctx):
    raise RuntimeError("no good")
"""


def test_a_plugin_that_raises_stops_the_start_or_is_left_out(
    project: Project, chat_server: ChatServer
) -> None:
    """B-242: what stands beside it runs."""
    project.write("broken.py", RAISING_PLUGIN)
    project.harness(chat_server.url("ok"), tools="broken: {use: ./broken.py}")
    refused = project.run("run", "hi")
    assert refused.returncode == 2
    assert refused.stderr == (
        "harness.yml:10:3 plugins.broken: failed: RuntimeError: no good (broken.py, line 6)\n"
    )
    left_out = project.run("run", "--safe", "hi")
    assert (left_out.returncode, left_out.stdout) == (0, "You said: hi\n")


def test_a_reader_that_goes_away_ends_the_turn_without_a_traceback(
    project: Project, chat_server: ChatServer
) -> None:
    """E-245: The turn is cancelled, and the session goes on later."""
    project.harness(chat_server.url("ok"))
    process = project.start("run", "--json", "--session", "s", QUESTION)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert complaint == "error: cancelled (user)\n"
    assert "cancelled (user)" in project.run("sessions", "show", "s").stdout
    assert project.run("run", "--session", "s", "again").returncode == 0


def test_a_list_that_nobody_reads_to_its_end_is_no_complaint(project: Project) -> None:
    project.harness("http://127.0.0.1:9/v1")
    process = project.start("config", "schema")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), complaint) == (1, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run",), 'there is no message; give one, as in: terret run "What is 2 + 2?"'),
        (("run", "  "), "the message is blank"),
        (("run", "a", "--input", "b"), "give the message either as words or with --input"),
        (("run", "--agent", "nobody", "hi"), 'there is no agent "nobody" (known: main)'),
        (("chat", "nobody"), 'there is no agent "nobody" (known: main)'),
        (("sessions", "show", "none"), 'there is no session "none"; see: terret sessions list'),
        (("run", "-c", "none.yml", "hi"), "there is no file none.yml"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_happens(
    project: Project, chat_server: ChatServer, words: tuple[str, ...], complaint: str
) -> None:
    project.harness(chat_server.url("ok"))
    refused = project.run(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"terret: {complaint}")
    assert chat_server.requests == []


def test_without_a_project_the_way_out_is_named(project: Project) -> None:
    refused = project.run("run", "hi")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"terret: no harness.yml in {project.folder} or above it")
