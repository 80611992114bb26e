"""Every plugin of this repository has a page, and the page says what the plugin says."""

import pytest

from plugin_pages import FOLDER, MARK, plugin_pages


def test_the_pages_of_plugins_are_up_to_date() -> None:
    old = [
        path.name
        for path, text in plugin_pages().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    assert old == [], "run: scripts/catalogs.py --write"


def test_there_is_no_page_without_a_plugin() -> None:
    assert sorted(FOLDER.glob("*.md")) == sorted(plugin_pages())


@pytest.mark.parametrize("path", plugin_pages(), ids=lambda path: path.stem)
def test_what_is_written_by_hand_stays(path: object) -> None:
    """The mark stands once, below a title."""
    text = plugin_pages()[path]  # type: ignore[index]
    assert text.startswith("# ")
    assert text.count(MARK) == (0 if "README" in str(path) else 1)
