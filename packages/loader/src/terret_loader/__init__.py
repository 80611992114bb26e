"""From harness.yml to a tree of running Terret plugins."""
