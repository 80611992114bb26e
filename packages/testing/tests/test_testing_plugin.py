"""What the pytest plugin gives to a project that installed it."""

import pytest

pytest_plugins = ["pytester"]

PROJECT = """
from terret_testing import say, script
import sniffio

async def test_both_backends(harness, request):
    assert f"[{sniffio.current_async_library()}]" in request.node.name
    async with harness(model=script(say("hello"))) as h:
        assert await h.send("hi") == "hello"
"""


def test_async_tests_of_a_project_run_on_both_backends(pytester: pytest.Pytester) -> None:
    """Without a setting."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(PROJECT)
    result = pytester.runpytest_subprocess("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*[[]asyncio[]] PASSED*", "*[[]trio[]] PASSED*"])


def test_pytest_imports_nothing_of_terret_by_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            assert {name.split(".")[0] for name in sys.modules if name.startswith("terret")} == {
                "terret_pytest"
            }
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
