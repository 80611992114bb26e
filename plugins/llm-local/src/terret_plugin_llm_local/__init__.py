"""A small language model inside the process, so that the first run needs no account."""
