"""Draws the batches of the losses in test/data/precision.json, for the script that makes the file and
for test/numerics/precision.py; needs numpy alone, so that a test can import it.
"""
import numpy as np

BATCHES, ROWS, LENGTH = 8, 8, 16
IGNORED = -100  # a label that does not count


def batches(vocabulary):
    """Token ids and labels [BATCHES, ROWS, LENGTH]; a fifth of the labels is ignored."""
    rng = np.random.default_rng(20)
    ids = rng.integers(3, vocabulary, (BATCHES, ROWS, LENGTH))
    labels = rng.integers(0, vocabulary, (BATCHES, ROWS, LENGTH))
    labels[rng.random(labels.shape) < 0.2] = IGNORED
    return ids, labels
