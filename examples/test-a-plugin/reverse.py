"""One tool: turns a text around."""

from terret_context import Context, plugin
from terret_tools import Tools, tool


@tool
async def reverse(text: str) -> str:
    """Turns a text around."""
    return text[::-1]


@plugin(inject=(Tools,))
def reverse_text(ctx: Context) -> None:
    """Offers the tool."""
    ctx[Tools].register(reverse)
