"""The tool registry of Terret and its guarded execution pipeline."""
