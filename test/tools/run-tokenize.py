"""scripts/tokenize.py: text -> tokens.bin. What needs the package `tokenizers` runs with the
Python of the oracles and is skipped where there is none."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "tokenize.py")
PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")
TEXT = os.path.join(ROOT, "examples", "gpt2", "text.txt")
MAKE = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
t.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
t.save(sys.argv[2])
t.add_tokens([f"<extra{i}>" for i in range(70000)])
t.save(sys.argv[3])
"""
DECODE = """
import sys, struct
from tokenizers import Tokenizer
t = Tokenizer.from_file(sys.argv[1])
data = open(sys.argv[2], "rb").read()
ids = struct.unpack(f"<{len(data) // int(sys.argv[3])}{'HI'[int(sys.argv[3]) // 4]}", data)
sys.stdout.write(t.decode(list(ids), skip_special_tokens=False))
"""
counts = {"passed": 0, "failed": 0, "skipped": 0}


def tokenize(python, *arguments):
    return subprocess.run([python, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def require(condition, message):
    if not condition:
        raise AssertionError(message)


def refused(python, words, *arguments, code=1):
    done = tokenize(python, *arguments)
    require(done.returncode == code, f"exit {done.returncode}: {done.stderr}")
    require(words in done.stderr and "Traceback" not in done.stderr, f"'{words}' is not in: {done.stderr}")


def write(path, text):
    with open(path, "wb") as f:
        f.write(text.encode() if isinstance(text, str) else text)
    return path


def inputs_survive(folder):
    """Outputs never replace inputs, by whatever name; no tokenizer is needed to say so."""
    text = write(os.path.join(folder, "a.txt"), "words")
    link, hard = os.path.join(folder, "link"), os.path.join(folder, "hard")
    os.symlink(text, link)
    os.link(text, hard)
    for output in (text, link, hard):
        refused(sys.executable, "is the input", "--tokenizer", "none", "--force", "-o", output, text)
    refused(sys.executable, "exists; give another name", "--tokenizer", "none", "-o",
            write(os.path.join(folder, "old"), "old"), text)
    refused(sys.executable, "is a device or pipe", "--tokenizer", "none", "-o", "/dev/null", text)
    refused(sys.executable, "'nothing' is no file and no folder; '", "--tokenizer", "none", "-o", "x",
            "nothing", os.path.join(folder, "none.txt"))
    refused(sys.executable, "--tokenizer", "-o", "x", text, code=2)
    with open(text) as f:
        require(f.read() == "words", "the input has changed")


def module_of_the_same_name(folder):
    """The standard library's `tokenize` is what other scripts of the folder get."""
    done = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import tokenize; "
                           "tokenize.open", os.path.dirname(SCRIPT)], capture_output=True, text=True)
    require(done.returncode == 0, done.stderr)


def tokens(folder):
    small, large = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "large.json")
    subprocess.run([PYTHON, "-c", MAKE, TEXT, small, large], check=True)
    with open(TEXT, newline="") as f:
        text = f.read()
    place = os.path.join(folder, "documents")
    os.makedirs(os.path.join(place, "deep"))
    write(os.path.join(place, "b.txt"), text)
    write(os.path.join(place, "a.jsonl"), '{"text": "first line"}\n\n{"text": "second \\u00e9"}\n')
    write(os.path.join(place, "deep", "c.md"), "third")
    write(os.path.join(place, "ignored.py"), "no")
    out = os.path.join(folder, "tokens.bin")
    for tokenizer, width, name in ((small, 2, "u16"), (large, 4, "u32")):
        done = tokenize(PYTHON, "--tokenizer", tokenizer, "-o", out, "--force", place)
        require(done.returncode == 0, done.stderr)
        decoded = subprocess.run([PYTHON, "-c", DECODE, tokenizer, out, str(width)], capture_output=True, check=True).stdout
        end = "<|endoftext|>"
        want = end.join(["first line", "second \u00e9", text, "third", ""])
        require(decoded.decode() == want, "the tokens decode to another text")
        count = os.path.getsize(out) // width
        require(f"{out}: {count} {name} tokens of 4 documents" in done.stdout, done.stdout)
    done = tokenize(PYTHON, "--tokenizer", folder, "-o", out, "--force", "--dtype", "u32", "--end-of-text", "none", TEXT)
    require("train on it with --data-dtype u32" in done.stdout, done.stdout + done.stderr)
    require(os.path.getsize(out) % 4 == 0, "not u32")
    before = os.path.getsize(out)
    bad = write(os.path.join(folder, "bad.txt"), b"abc\xff\xfe")
    lines = write(os.path.join(folder, "bad.jsonl"), '{"text": "x"}\n{"body": "y"}\n')
    for words, arguments in (("bad.txt' is not UTF-8: invalid start byte at byte 3", [bad]),
                             ("bad.jsonl', line 2: not an object with text under 'text'", [lines]),
                             ("has no such token", ["--end-of-text", "<end>", TEXT]),
                             ("there is no text", ["--end-of-text", "none", write(os.path.join(folder, "empty.txt"), "")])):
        refused(PYTHON, words, "--tokenizer", small, "-o", out, "--force", *arguments)
    require(os.path.getsize(out) == before, "a failure replaced the output")
    refused(PYTHON, "is the input", "--tokenizer", small, "-o", small, "--force", TEXT)
    require(not [name for name in os.listdir(folder) if ".tmp." in name], "a temporary file is left")


def run(test):
    try:
        with tempfile.TemporaryDirectory(prefix="llmc-") as folder:
            test(folder)
        counts["passed"] += 1
        print(f"ok      tokenize: {test.__name__}")
    except Exception as error:  # noqa: BLE001 - every failure is a result
        counts["failed"] += 1
        print(f"FAILED  tokenize: {test.__name__}: {error}")


run(inputs_survive)
run(module_of_the_same_name)
has = PYTHON and subprocess.run([PYTHON, "-c", "import tokenizers"], capture_output=True).returncode == 0
if has:
    run(tokens)
else:
    counts["skipped"] += 1
    print("skipped tokenize: tokens: the package tokenizers is missing (--full has it)")
print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
sys.exit(1 if counts["failed"] else 0)
