"""Hugging Face transformers: with_transformers.py CONFIG ROWS TOKENS HOW ITERATIONS -> one JSON line.

HOW is eager, grouped (its grouped products of experts, if this version has them) or compiled (torch.compile of the
grouped ones, else of eager).
"""
import json
import math
import resource
import sys
import time

import torch
import transformers


def main():
    rows, tokens, how, iterations = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    torch.manual_seed(0)
    torch.set_num_threads(2)
    config = transformers.AutoConfig.from_pretrained(sys.argv[1])
    config._attn_implementation = "sdpa"
    config._experts_implementation = "eager" if how == "eager" else "grouped_mm"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, config.vocab_size, (rows, tokens + 1))
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def loss_of():
        logits = model(input_ids=x, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.view(-1, config.vocab_size), y.view(-1))
    forward = torch.compile(loss_of) if how == "compiled" else loss_of
    times = []
    for _ in range(iterations + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
        assert math.isfinite(loss.item())
    print(json.dumps({"times": times[2:], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "version": f"transformers {transformers.__version__}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
