"""Session logs as JSON lines, one directory a session."""
