"""Continues a text with a trained model, by transformers: generate.py FOLDER TOKENIZER TEXT"""
import sys

import torch
import transformers

transformers.utils.logging.disable_progress_bar()
folder, file, text = sys.argv[1:]
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file)
model = transformers.AutoModelForCausalLM.from_pretrained(folder)
torch.manual_seed(0)
ids = tokenizer(text, return_tensors="pt").input_ids
print(tokenizer.decode(model.generate(ids, max_new_tokens=100, do_sample=True, temperature=0.6)[0]))
