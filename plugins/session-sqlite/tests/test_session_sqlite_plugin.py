from pathlib import Path

from terret_context import Container, Context, plugin
from terret_llm import create_user_message
from terret_loader import open_harness
from terret_plugin_session_sqlite import SessionSqliteConfig, session_sqlite
from terret_sessions import SESSION_PERSISTENCE, Completed, Session, Sessions, TurnEnd, TurnStart


def turn(session: Session) -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message(f"turn {number}"), surface_op="append")
    session.append("turn/end", TurnEnd(number, Completed()))


async def test_it_is_mounted_from_yaml(tmp_path: Path) -> None:
    """M-117: The default path is beside the file that names the plugin."""
    file = tmp_path / "harness.yml"
    file.write_text("plugins:\n  sessions: {}\n  session-sqlite: {windowMs: 0}\n")
    async with open_harness(file) as root:
        session = root[Sessions].create("s")
        turn(session)
        assert await root[Sessions].flush(session)
        persistence = root.get(SESSION_PERSISTENCE)
        assert persistence is not None
        assert persistence.locate(session.header) == str(tmp_path / ".terret" / "sessions.db")
        assert [each.id for each in await persistence.list()] == ["s"]


def test_the_defaults_need_no_configuration() -> None:
    """M-117: The database is beside the file that names the plugin."""
    assert SessionSqliteConfig().path == Path(".terret/sessions.db")


async def test_unloading_the_plugin_is_the_identity(tmp_path: Path) -> None:
    """M-118: Sessions go on without it, and it takes them up again where it left them."""
    config = {"path": tmp_path / "sessions.db"}
    async with Container() as root:
        root.plugin(Sessions)
        store = root.plugin(session_sqlite, config)
        host = root.plugin(plugin(inject=(Sessions,), name="host")(_nothing))
        await root.settle()
        sessions = host.ctx[Sessions]
        session = sessions.create("s")
        turn(session)
        await store.dispose(check=True)
        turn(session)
        assert host.ctx.get(SESSION_PERSISTENCE) is None
        await root.plugin(session_sqlite, config).ready()
        await sessions.flush(session)
        persistence = host.ctx.get(SESSION_PERSISTENCE)
        assert persistence is not None
        assert await persistence.read_from("s", 0) == session.events


def _nothing(ctx: Context) -> None:
    return None
