"""Lets no prompt pass that does not say please."""

from terret_agents import PROMPT_SUBMIT, Agents, Allow, Block, PromptSubmission
from terret_context import Config, Context, Next, plugin


class MannersConfig(Config):
    """Configuration of the entry `manners`."""

    word: str = "please"
    """What has to be said."""


@plugin(config=MannersConfig, inject=(Agents,))
def manners(ctx: Context, config: MannersConfig) -> None:
    """Blocks prompts without the word; a blocked prompt never reaches the model."""

    async def gate(submission: PromptSubmission, call_next: Next[Allow | Block]) -> Allow | Block:
        if config.word not in submission.message.text.lower():
            return Block(f'say "{config.word}"')
        return await call_next()

    ctx.on(PROMPT_SUBMIT, gate)
