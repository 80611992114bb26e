"""The files of a new project."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

_HARNESS: Final = """\
# What runs: the preset `service`, with the changes below.
# `terret config check` says what is wrong, `terret config show --origin` what is set and where.
extends: [service]
plugins:
  agent-folders:
    defaults:
      # Who answers for agents that name no model. This small one runs inside the process and needs
      # no key: it shows that everything works. `terret model install` fetches it, once.
      model: {provider: local}
      # A strong one in its place; the key goes into .env, as ANTHROPIC_API_KEY or OPENAI_API_KEY:
      # model: {provider: anthropic, model: claude-sonnet-5}
      # model: {provider: openai, model: gpt-5}
  llm-local: {}
"""

_AGENT: Final = """\
# The agent `main`: its tools are in tools/, its rules in permissions.yml.
# Another one: terret add-agent NAME
description: Adds numbers
systemPrompt: |
  You are a careful assistant. Use the tool `add` for sums, and answer in one short sentence.
"""

_TOOL: Final = '''\
"""Tools of the agent `main`: every function here that is decorated with `@tool`."""

from terret_tools import tool


@tool
def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
'''

_RULES: Final = """\
# What this agent may call. Where no rule matches, a person is asked.
default: ask
rules:
  - name: sums-are-harmless
    scope: "*"
    tool: add
    decision: allow # or ask, or deny
"""

_ENV: Final = """\
# Copy this to .env, which is not committed. What is set outside of it wins.

# The key of the model.
# ANTHROPIC_API_KEY=
# OPENAI_API_KEY=

# Who talks to the service shows one of these. Without any, only this machine may.
# TERRET_API_TOKEN=
# TERRET_ADMIN_TOKEN=
"""

_DOCKERFILE: Final = """\
FROM python:3.12-slim
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# What your tools import belongs into this line too.
RUN pip install --no-cache-dir terret=={version}
# The small model of harness.yml; delete this line with it.
RUN terret model install
RUN useradd --no-create-home --uid 10001 terret && install -d -o terret -g terret /data
WORKDIR /app
COPY . .
USER terret
ENV TERRET_HOST=0.0.0.0 TERRET_DATA=/data
VOLUME /data
EXPOSE 8787
HEALTHCHECK CMD ["python", "-c", \\
    "from urllib.request import urlopen; urlopen('http://127.0.0.1:8787/healthz')"]
CMD ["terret", "serve"]
"""

_COMPOSE: Final = """\
# docker compose up --build
services:
  terret:
    build: .
    environment:
      TERRET_ENV: staging
      TERRET_API_TOKEN: ${TERRET_API_TOKEN:?put it into .env - who sends messages shows it}
    env_file:
      - {path: .env, required: false}
    ports: ["8787:8787"]
    volumes: ["data:/data"]
    # Nothing but the conversations in /data is written.
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    stop_grace_period: 40s # longer than http.drainSeconds
    restart: unless-stopped
volumes:
  data: {}
"""


def project_files() -> Mapping[str, str]:
    """Gives the texts of the files by path."""
    return {
        "harness.yml": _HARNESS,
        "agents/main/agent.yml": _AGENT,
        "agents/main/tools/sums.py": _TOOL,
        "agents/main/permissions.yml": _RULES,
        ".env.example": _ENV,
        ".gitignore": ".env\n.terret/\n.venv/\n__pycache__/\n",
        "Dockerfile": _DOCKERFILE.format(version=version("terret-plugin-agent-folders")),
        "compose.yml": _COMPOSE,
        ".dockerignore": ".env\n.git\n.terret\n.venv\n**/__pycache__\n",
    }
