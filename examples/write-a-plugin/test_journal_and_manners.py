"""What the two plugins do to an agent."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from journal import journal
from manners import manners

from terret_sessions import Blocked
from terret_testing import Harness, say, script

Boot = Callable[..., AbstractAsyncContextManager[Harness]]


async def test_prompts_are_in_the_journal(harness: Boot, tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    async with harness(plugins=[(journal, {"path": path})], model=script(say("Hello."))) as h:
        await h.send("Hi there.")
        assert "written down" in str(h.requests[0].system)
    assert path.read_text("utf-8") == "test: Hi there.\n"


async def test_unloading_closes_the_journal_and_takes_the_section_back(
    harness: Boot, tmp_path: Path
) -> None:
    plugins = [(journal, {"path": tmp_path / "journal.txt"})]
    async with harness(plugins=plugins, model=script(say("Hello."))) as h:
        [fiber] = h.ctx.fibers(journal)
        await fiber.dispose()
        await h.send("Hi there.")
        assert "written down" not in str(h.requests[0].system)


async def test_a_rude_prompt_reaches_no_model(harness: Boot) -> None:
    async with harness(plugins=[manners], model=script(say("Gladly."))) as h:
        await h.send("Do it!")
        assert h.turn_end == Blocked('say "please"')
        assert await h.send("Do it, please!") == "Gladly."


async def test_the_word_can_be_changed_while_it_runs(harness: Boot) -> None:
    async with harness(plugins=[manners], model=script(say("Gern."))) as h:
        [fiber] = h.ctx.fibers(manners)
        await fiber.update({"word": "bitte"})
        assert await h.send("Mach das bitte.") == "Gern."
