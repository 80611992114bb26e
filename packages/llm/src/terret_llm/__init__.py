"""Messages, chunks, adapters and errors: how Terret talks to language models."""
