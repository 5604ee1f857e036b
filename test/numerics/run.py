"""Runs the end-to-end tests of models and of what users see."""
from suites import run

run(["oracle", "architectures", "golden", "infer", "mixtures", "mixtures_training", "trainer", "meshes", "tool", "evaluation", "counts", "explain", "priced", "compared",
     "traces", "predictions", "search", "budget", "predicted_traffic", "calibrated", "simulated", "refusals", "failures", "quantized", "precision", "exports", "tour", "live", "live_exports", "own_file"])
