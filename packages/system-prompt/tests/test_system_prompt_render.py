"""References in texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_context import Container
from terret_system_prompt import (
    AssembleContext,
    Assembly,
    Fact,
    PromptReferenceError,
    Section,
    SystemPrompt,
    render,
    render_contexts,
)


def filled(text: str, **variables: str | None) -> str:
    return render(Assembly(sections=(Section("part", 0, text),), variables=variables))


def test_references_are_filled_in() -> None:
    """P-013: References are interpolated."""
    assert filled("{{a}} and {{b_2}}{{a}}", a="x", b_2="y") == "x and yx"


def test_context_text_is_interpolated_and_a_failure_names_it() -> None:
    """P-010: Context text is interpolated; a failure names the contributor."""
    facts = (Fact("day", 0, "It is {{day}}."), Fact("empty", 1, "{{nothing}}"))
    assembly = Assembly(contexts=facts, variables={"day": "Monday", "nothing": ""})
    assert render_contexts(assembly) == "It is Monday."
    with pytest.raises(PromptReferenceError, match='context "day"'):
        render_contexts(Assembly(contexts=facts, variables={}))


def test_an_unknown_reference_lists_what_exists() -> None:
    """P-014: Unknown references raise, listing what exists or "(none)"."""
    with pytest.raises(PromptReferenceError, match=r"section \"part\".*\{\{x\}\}.*: a, b") as info:
        filled("{{x}}", b="", a="")
    assert (info.value.where, info.value.reference) == ('section "part"', "x")
    assert info.value.known == ("a", "b")
    with pytest.raises(PromptReferenceError, match=r"\(none\)"):
        filled("{{x}}")


def test_a_variable_without_value_raises() -> None:
    """P-014: Valueless references raise."""
    with pytest.raises(PromptReferenceError, match="has no value here"):
        filled("{{x}}", x=None)


@pytest.mark.parametrize("text", ["{{}}", "{{ x }}", "{{X}}", "{{x y}}", "{{a{{x}}", "{{x} }}"])
def test_a_malformed_reference_raises(text: str) -> None:
    """P-014: Malformed references raise."""
    with pytest.raises(PromptReferenceError, match="is no variable name"):
        filled(text, x="1")


def test_a_reference_that_lacks_a_brace_raises() -> None:
    """P-015: `{{x}` raises."""
    with pytest.raises(PromptReferenceError, match="lacks its last brace"):
        filled("a {{x} b", x="1")


@pytest.mark.parametrize("text", ["{{", "a {{ b", "{{x", "{x}", "}} {{", "{{ {x}"])
def test_braces_that_are_never_closed_are_text(text: str) -> None:
    """P-015: A lone `{{` is literal only when no `}}` follows."""
    assert filled(text, x="1") == text


@given(st.text(), st.text(alphabet="{}x a"))
def test_inserted_values_are_never_scanned_again(value: str, braces: str) -> None:
    """P-016: Inserted values are never scanned again."""
    for inserted in (value, braces, "{{x}}", "{{"):
        assert filled("<{{x}}>", x=inserted) == f"<{inserted}>"


def test_sections_are_joined_by_blank_lines_and_empty_ones_vanish() -> None:
    """P-010: Empty text is filtered after interpolation too."""
    parts = [Section("a", 0, "a"), Section("b", 1, "{{nothing}}"), Section("c", 2, "c")]
    assert render(Assembly(sections=tuple(parts), variables={"nothing": " "})) == "a\n\nc"


async def test_variables_may_come_after_the_text_that_names_them() -> None:
    """P-012, P-013: Variables resolve per assembly; the persona is interpolated too."""
    count = iter(range(9))
    async with Container() as root:
        config = {"persona": "You are {{role}} {{number}}.", "includeHarnessIdentity": False}
        await root.plugin(SystemPrompt, config).ready()
        prompt = root[SystemPrompt]
        role = prompt.variable("role", lambda context: "agent")
        prompt.variable("number", lambda context: str(next(count)))
        assert render(await prompt.assemble(AssembleContext())) == "You are agent 0."
        assert render(await prompt.assemble(AssembleContext())) == "You are agent 1."
        role.close()
        with pytest.raises(PromptReferenceError, match="role"):
            render(await prompt.assemble(AssembleContext()))


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "_a", "a b", "ä"])
async def test_a_bad_variable_name_is_refused(name: str) -> None:
    """P-012: Bad names are refused."""
    async with Container() as root:
        await root.plugin(SystemPrompt).ready()
        with pytest.raises(ValueError, match="prompt variable"):
            root[SystemPrompt].variable(name, lambda context: "")
