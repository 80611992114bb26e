"""The Agent interface of Terret: inbox, registry, creation, checkpoints."""
