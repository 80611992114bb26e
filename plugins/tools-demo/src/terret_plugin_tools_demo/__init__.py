"""Two tools to start with: add and now."""
