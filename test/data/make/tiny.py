"""Makes test/data/gpt2-tiny from a folder of small exports with stored vectors:
tiny.py FOLDER, where FOLDER has config.json, weights.safetensors, train.npz and exports."""
import os
import shutil
import sys

import numpy as np

from common import DATA, IGNORED, load_model, mean_loss, write_oracle

source, target = sys.argv[1], os.path.join(DATA, "gpt2-tiny")
os.makedirs(target, exist_ok=True)
for name, copy in [("config.json", "config.json"), ("weights.safetensors", "weights.safetensors"),
                   ("dynamo-18/model.onnx", "dynamo.onnx"),
                   ("ts-17-mask/model.onnx", "torchscript.onnx"),
                   ("dynamo-23-mask-pos/model.onnx", "attention23.onnx")]:
    shutil.copyfile(os.path.join(source, name), os.path.join(target, copy))

# Stored labels are for a loss that shifts; ours are aligned with the logits.
train = np.load(os.path.join(source, "train.npz"))
ids, labels = train["input_ids"], np.full_like(train["labels"], IGNORED)
labels[:, :-1] = train["labels"][:, 1:]
stored = {name: train[name] for name in train.files if name.startswith("grad.")}
np.savez(os.path.join(target, "oracle.npz"), loss=np.float64(train["loss"]), **stored)
np.save(os.path.join(target, "input_ids.npy"), ids)
np.save(os.path.join(target, "labels.npy"), labels)
ours = mean_loss(load_model(target), ids, labels).item()
assert abs(ours - train["loss"]) < 1e-9 * ours, (ours, train["loss"])

# The forward vector comes from ONNX Runtime.
np.save(os.path.join(target, "forward_ids.npy"),
        np.load(os.path.join(source, "dynamo-18/inputs.npz"))["input_ids"])
np.save(os.path.join(target, "forward_logits.npy"),
        np.load(os.path.join(source, "dynamo-18/expected.npz"))["logits"])
