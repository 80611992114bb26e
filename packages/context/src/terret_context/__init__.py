"""The dependency-injection container of Terret: contexts, fibers, effects, services, scopes and events."""
