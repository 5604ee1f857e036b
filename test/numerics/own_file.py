"""`llmc verify --oracle`: the model's own file, run by ONNX Runtime, PyTorch or transformers with the
trial's weights and rows, against all ranks in double; of every file of test/data.

Needs the Python of scripts/oracles.txt (scripts/test.sh --full makes it).
    own_file.py [NAME] --full
"""
import glob
import json
import os

from harness import DATA, LLMC, Suite, call, require

PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")
# Files that are not read in PyTorch, for their ops, or for rows that do not hit every expert: their outputs alone are
# compared.
UNREAD = ["llama-hd16/genai-22-fp32", "qwen3_moe/ts-17-mask-loop"]
# Files in which an exporter merged a parameter of equal elements with an equal constant.
MERGED = ["exports/biased/dynamo.onnx", "exports/gates/dynamo.onnx"]
# Configs of models so large that verify runs scaled-down ones, which have no file.
LARGE = ["gpt-oss-120b/config.json", "deepseek-v3/config.json"]


def verified(folder, path, mesh):
    rows = ["--micro-batch", 2 // int(mesh[0]), "--seq", "16" if "fixed" in path else "8", "--global-batch", 4]
    done = call([LLMC, "verify", path, "--mesh", mesh, *rows, "--json", "--oracle", PYTHON], check=False)
    require(done.returncode in (0, 1, 3), done.stderr[-1500:])
    if any(name in path for name in MERGED):
        require(done.returncode == 1 and "which the file stores once" in done.stderr, done.stderr[-1500:])
        return "refused: a constant and a parameter are one tensor"
    require(done.stdout, done.stderr[-1500:])
    report = json.loads(done.stdout)
    failed = [f"{c['name']} {c['value']:.1e} ({c['subject']})" for c in report["checks"] if not c["passed"]]
    require(not failed, "; ".join(failed))
    found = {c["name"]: c["value"] for c in report["checks"] if c["name"].startswith("oracle:")}
    unread = any(name in path for name in UNREAD)
    wanted = ["oracle:outputs"] if unread else ["oracle:gradients", "oracle:loss", "oracle:outputs"]
    require(set(wanted) <= set(found) and ("oracle:loss" in found) != unread, f"checks {sorted(found)}")
    return ", ".join(f"{name[len('oracle:'):]} {value:.1e}" for name, value in found.items())


suite = Suite("own_file")
files = sorted([*glob.glob(os.path.join(DATA, "models", "*", "*", "model.onnx")),
                *glob.glob(os.path.join(DATA, "exports", "*", "*.onnx")),
                *glob.glob(os.path.join(DATA, "*", "config.json"))])
files = [path for path in files if os.path.relpath(path, DATA) not in LARGE]
for number, path in enumerate(files if PYTHON and suite.full else []):
    suite.run(os.path.relpath(path, DATA), verified, path, ["2x1x1", "1x2x1", "1x1x2"][number % 3])
if not (PYTHON and suite.full):
    suite.skip("files of test/data", "scripts/test.sh --full makes a Python with PyTorch")
suite.finish()
