"""Models behind the OpenAI chat-completions wire."""
