"""Runs the end-to-end tests of ways to share out a step."""
from suites import run

run(["sequence", "memory", "context", "ring", "long", "masks", "dropout", "covering", "zero", "pipelines",
     "pipelines_counts", "experts", "routes", "near_ties", "tied", "balance",
     "covering_experts", "large", "shared", "many_ranks"])
