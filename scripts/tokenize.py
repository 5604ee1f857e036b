#!/usr/bin/env python3
"""Turns text into tokens that a compiled program trains on: raw u16 or u32, one file.

A text file is one document; a .jsonl file has one a line, under --key; of a folder every
.txt, .md and .jsonl file is taken, in the order of their names. Behind each document comes the
end-of-text token. Needs the package `tokenizers` (pip install tokenizers).

    scripts/tokenize.py --tokenizer tokenizer.json -o tokens.bin books/ more.txt
"""
import os
import sys

# The standard library has a module of this name: who imports it from this folder means that one.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
if __name__ != "__main__":
    import importlib
    del sys.modules[__name__]
    sys.modules[__name__] = importlib.import_module(__name__)

import argparse
import json
import struct

ENDS = ["<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<eos>", "</s>", "[SEP]"]
SUFFIXES = (".txt", ".md", ".jsonl")
BATCH_BYTES = 1 << 24  # documents that are encoded together
LARGEST_U16 = 65536


class Refused(Exception):
    pass


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="+", help="text files, .jsonl files, folders")
    parser.add_argument("--tokenizer", required=True,
                        help="a tokenizer.json, a folder that has one, or a name on the Hugging Face hub")
    parser.add_argument("-o", "--output", required=True, help="the file of tokens")
    parser.add_argument("--end-of-text", metavar="TOKEN",
                        help="put behind each document; 'none': nothing (default: the tokenizer's own)")
    parser.add_argument("--dtype", choices=["u16", "u32"], help="default: u16 for a vocabulary up to 65,536")
    parser.add_argument("--key", default="text", help="of a .jsonl line (default: text)")
    parser.add_argument("--force", action="store_true", help="replace an existing output, never an input")
    return parser.parse_args()


def inputs_of(places):
    """All files, those of a folder in the order of their names; an error names all that are missing."""
    files, missing = [], []
    for place in places:
        if os.path.isdir(place):
            found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(place)
                           for name in names if name.endswith(SUFFIXES))
            if not found:
                missing.append(f"'{place}' has no file that ends in {', '.join(SUFFIXES)}")
            files += found
        elif os.path.isfile(place):
            files.append(place)
        else:
            missing.append(f"'{place}' is no file and no folder")
    if missing:
        raise Refused("; ".join(missing))
    return files


def check_output(output, inputs, force):
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise Refused(f"-o {output} is the input '{path}'; give it another name")
    if os.path.isdir(output):
        raise Refused(f"-o {output} is a folder; name a file in it")
    if os.path.exists(output) and not os.path.isfile(output):
        raise Refused(f"-o {output} is a device or pipe; name a file")
    if os.path.exists(output) and not force:
        raise Refused(f"-o {output} exists; give another name, or --force to replace it")


def open_tokenizer(where):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Refused("the package 'tokenizers' is missing; pip install tokenizers") from None
    path = os.path.join(where, "tokenizer.json") if os.path.isdir(where) else where
    try:
        if os.path.isfile(path):
            return Tokenizer.from_file(path)
        return Tokenizer.from_pretrained(where)
    except Exception as error:  # the package raises plain Exception
        raise Refused(f"--tokenizer {where}: {error}") from None


def end_token(tokenizer, wanted):
    """Name and number of the token behind each document; None: none."""
    if wanted == "none":
        return None
    for name in [wanted] if wanted else ENDS:
        number = tokenizer.token_to_id(name)
        if number is not None:
            return name, number
    if wanted:
        raise Refused(f"--end-of-text {wanted}: the tokenizer has no such token")
    raise Refused(f"the tokenizer has none of {' '.join(ENDS)}; name its token with --end-of-text, "
                  "or say --end-of-text none")


def documents_of(path, key):
    try:
        with open(path, encoding="utf-8", newline="") as f:
            if not path.endswith(".jsonl"):
                yield f.read()
                return
            for number, line in enumerate(f, 1):
                if not line.strip():
                    continue
                try:
                    text = json.loads(line)[key]
                except (ValueError, KeyError, TypeError):
                    text = None
                if not isinstance(text, str):
                    raise Refused(f"'{path}', line {number}: not an object with text under '{key}'")
                yield text
    except UnicodeDecodeError as error:
        raise Refused(f"'{path}' is not UTF-8: {error.reason} at byte {error.start}") from None


def batches_of(files, key):
    batch, size = [], 0
    for path in files:
        for text in documents_of(path, key):
            batch.append(text)
            size += len(text)
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def write_tokens(out, files, arguments, tokenizer, end, wide):
    documents = tokens = 0
    kind, most = ("I", 1 << 32) if wide else ("H", 1 << 16)
    for batch in batches_of(files, arguments.key):
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids = encoding.ids + ([end[1]] if end else [])
            if ids and max(ids) >= most:
                raise Refused(f"token {max(ids)} does not fit into u16; say --dtype u32")
            out.write(struct.pack(f"<{len(ids)}{kind}", *ids))
            documents, tokens = documents + 1, tokens + len(ids)
        if sys.stderr.isatty():
            print(f"\r{documents} documents, {tokens} tokens", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return documents, tokens


def run(arguments):
    files = inputs_of(arguments.text)
    tokenizer_files = [os.path.join(arguments.tokenizer, "tokenizer.json"), arguments.tokenizer]
    check_output(arguments.output, files + tokenizer_files, arguments.force)
    tokenizer = open_tokenizer(arguments.tokenizer)
    end = end_token(tokenizer, arguments.end_of_text)
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    wide = arguments.dtype == "u32" if arguments.dtype else vocabulary > LARGEST_U16
    temporary = f"{arguments.output}.tmp.{os.getpid()}"
    try:
        with open(temporary, "xb") as out:
            documents, tokens = write_tokens(out, files, arguments, tokenizer, end, wide)
        if tokens == 0:
            raise Refused("there is no text in these files")
        os.replace(temporary, arguments.output)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    print(f"{arguments.output}: {tokens} {'u32' if wide else 'u16'} tokens of {documents} documents, "
          f"vocabulary {vocabulary}, " + (f"'{end[0]}' behind each" if end else "nothing between them"))
    if wide != (vocabulary > LARGEST_U16):
        print(f"train on it with --data-dtype {'u32' if wide else 'u16'}")


def main():
    arguments = read_arguments()
    try:
        run(arguments)
    except (Refused, OSError) as error:
        print(f"tokenize.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
