"""Models of any depth whose loss and gradients PyTorch has computed.

A layer whose two branches end in zeros adds nothing to the residual, and passes its cotangent on as it
is. Put between the layers of a small model of test/data, such layers leave its loss and the gradients of
all that it has exactly as they are in its oracle.npz, whichever stages they make it cross.
"""
import json
import os
import re

import numpy as np

from harness import DATA, read_oracle, read_safetensors, require, write_safetensors

# Names the tensors that end a branch, and what makes zeros of it: Gemma adds one to the scales of its norms.
GPT2 = {"attn.c_proj": 0, "mlp.c_proj": 0}
LLAMA = {"self_attn.o_proj": 0, "mlp.down_proj": 0}
GEMMA = {"post_attention_layernorm": -1, "post_feedforward_layernorm": -1}
ENDS = {"gpt2": GPT2, "llama": LLAMA, "qwen3": LLAMA, "mistral": LLAMA, "gemma2": GEMMA, "gemma3_text": GEMMA}
LAYER = re.compile(r"(.*?\b(?:h|layers|layer)\.)(\d+)(\..*)")
IGNORED = -100


def read_config(model):
    with open(os.path.join(DATA, model, "config.json")) as f:
        return json.load(f)


def depth_name(content):
    return "n_layer" if "n_layer" in content else "num_hidden_layers"


def write_config(folder, model, layers, **changes):
    """Writes FOLDER/config.json of a model with so many layers, of kinds that go on as they began; returns its path."""
    content = read_config(model)
    content[depth_name(content)] = layers
    if "layer_types" in content:
        kinds = content["layer_types"]
        content["layer_types"] = [kinds[i % len(kinds)] for i in range(layers)]
    content.update(changes)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return path


def places_of(content, layers):
    """Spreads the layers that the oracle knows over all, each where layers of its kind stand."""
    own = content[depth_name(content)]
    kinds = content.get("layer_types", ["full"] * own)
    places = [max(i for i in range((j + 1) * layers // own) if kinds[i % len(kinds)] == kinds[j]) for j in range(own)]
    require(len(set(places)) == own and places == sorted(places), f"{layers} layers have no places for {own}: {places}")
    return places


def write_weights(folder, model, layers, places):
    """Writes FOLDER/model.safetensors: the model's layers at `places`, elsewhere copies of them that end in zeros."""
    whole, folder_of_model = {}, os.path.join(DATA, model)
    for name in os.listdir(folder_of_model):
        if name.endswith(".safetensors"):
            whole.update(read_safetensors(os.path.join(folder_of_model, name)))
    deeper = {}
    for name, value in whole.items():
        part = LAYER.fullmatch(name)
        if not part:
            deeper[name] = value
            continue
        own = int(part[2])
        deeper[f"{part[1]}{places[own]}{part[3]}"] = value
        ends = [zero for end, zero in ENDS.get(model, {}).items() if part[3].startswith(f".{end}.")]
        for at in range(layers):
            if at not in places and at % len(places) == own:
                deeper[f"{part[1]}{at}{part[3]}"] = np.full_like(value, ends[0]) if ends else value
    write_safetensors(os.path.join(folder, "model.safetensors"), deeper)


def deepen(folder, model, layers, multiple=1):
    """Writes a deeper model and its rows; returns the config's path, input flags, the rows' shape, the loss and gradients.

    Rows whose labels are all ignored change neither: they make the number of rows a multiple of `multiple`.
    """
    content, data = read_config(model), os.path.join(DATA, model)
    places = places_of(content, layers)
    require(layers == len(places) or model in ENDS, f"it is not known how layers of {model} pass over")
    write_weights(folder, model, layers, places)
    flags = []
    for name, filler in (("input_ids", 0), ("labels", IGNORED)):
        rows = np.load(os.path.join(data, name + ".npy"))
        rows = np.pad(rows, ((0, -len(rows) % multiple), (0, 0)), constant_values=filler)
        np.save(os.path.join(folder, name + ".npy"), rows)
        flags += ["--input", f"{name}={folder}/{name}.npy"]
    loss, gradients = read_oracle(data)
    renamed = {LAYER.sub(lambda part: f"{part[1]}{places[int(part[2])]}{part[3]}", name): value
               for name, value in gradients.items()}
    return write_config(folder, model, layers), flags, rows.shape, loss, renamed
