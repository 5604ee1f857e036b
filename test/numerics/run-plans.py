"""Runs the end-to-end tests of ways to share out a step, and of the proofs of plans."""
from suites import run

run(["sequence", "memory", "context", "ring", "masks", "dropout", "covering", "zero", "verify", "edits", "interleavings",
     "mutation", "ir_mutation", "catalogue", "large", "shared", "many_ranks", "twin"])
