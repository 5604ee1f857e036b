"""Runs the end-to-end tests of the proofs of plans."""
from suites import run

run(["verify", "edits", "interleavings", "mutation", "ir_mutation", "catalogue", "twin"])
