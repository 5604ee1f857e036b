"""One architecture is one model, whoever wrote the file.

Every file of test/data/models, and the config.json beside them, has the parameters, layers and
blocks of its architecture; the layers of all files are the same IR, letter for letter; each file
is verified on a mesh. --raise off keeps the tensor-parallel collectives.
"""
import json
import os
import re

from harness import DATA, LLMC, Suite, call, inspect, require

MODELS = os.path.join(DATA, "models")


def decoder(layers, norms, kind="rms norm", rotary=True):
    return [f"attention x{layers}", *([f"rotary x{2 * layers}"] if rotary else []), f"mlp x{layers}",
            f"{kind} x{norms}", "embedding x1", "head x1"]


# Parameters, layers, blocks.
GOLDEN = {
    "bert": (28064, 2, decoder(2, 6, "layer norm", rotary=False)),
    "gpt2": (35744, 2, decoder(2, 5, "layer norm", rotary=False)),
    "llama": (34976, 2, decoder(2, 5)),
    "llama-hd16": (41184, 2, decoder(2, 5)),
    "qwen2": (28320, 2, decoder(2, 5)),
    "mistral": (4688, 2, decoder(2, 5)),
    "qwen3": (4720, 2, decoder(2, 9)),
    "gpt_neox": (4720, 2, decoder(2, 5, "layer norm")),
    "phi": (4680, 2, decoder(2, 3, "layer norm")),
    "phi3": (4688, 2, decoder(2, 5)),
    "gemma2": (8336, 4, decoder(4, 17)),
    "gemma3": (8400, 4, decoder(4, 25)),
    "olmo2": (4736, 2, decoder(2, 9)),
    "mixtral": (41376, 2, [block.replace("mlp", "mixture") for block in decoder(2, 5)]),
    "qwen3_moe": (7152, 2, [block.replace("mlp", "mixture") for block in decoder(2, 9)]),
}
# Files whose numbers are not those of the architecture: a scale rounded to bfloat16.
ROUNDED = ["llama/dynamo-18-bf16"]
# Architectures that four ranks can share (heads, and features where a bias lies in them).
FOUR = ["bert", "gpt2", "llama", "llama-hd16", "qwen2", "olmo2"]
# Architectures whose norms over all heads keep attention whole on each tensor rank. Which values of it
# sequence parallelism cuts depends on the ops that raising finds; what is cut without it does not.
UNCUT = ["olmo2"]
# Architectures with experts: ranks share them out too, and products as exporters write them, which are not
# raised, have other collectives.
MIXTURES = ["mixtral", "qwen3_moe"]
# Exporters store 1 + w, which a config's model computes from its w: the scale of a norm.
ONE_PLUS = re.compile(r"^% = graph.add %, % : \(tensor<\d+xf32>, tensor<f32>\)")


def sizes(path, replicas=1):
    """2 rows of 16, which the fixed files have; the others are verified on fewer."""
    return ["--micro-batch", str(2 // replicas), "--seq", "16" if "fixed" in path else "8"]


def described(folder, architecture, path):
    """Counts of `inspect`, of the file as it is."""
    parameters, layers, blocks = GOLDEN[architecture]
    program = os.path.join(folder, "program")
    call([LLMC, "compile", path, "-o", program, *sizes(path)])
    model = inspect(program)["model"]
    got = (model["parameters"], model["layers"], model["blocks"])
    require(got == (parameters, layers, blocks), f"got {got}")
    return f"{parameters} parameters, {layers} layers, {', '.join(blocks)}"


def body(folder, path):
    """The raised layers without what names and values give: symbols, places, numbers of tables."""
    out = os.path.join(folder, "raised.mlir")
    call([LLMC, "compile", path, "--compile-to", "raise", "-o", out, "--micro-batch", "2", "--seq", "16"])
    with open(out) as f:
        text = f.read()
    lines, inside = [], False
    for line in text.splitlines():
        inside |= "graph.repeat" in line
        if inside and "graph.constant" not in line:
            lines.append(re.sub(r"%[\w#:]+", "%", re.sub(r" loc\(.*", "", line)).strip())
            if ONE_PLUS.match(lines[-1]):
                lines.pop()
        inside &= "graph.yield" not in line
    require(lines, "no layer is folded")
    return lines


def same(folder, architecture, paths):
    first = None
    for name, path in paths:
        lines = body(folder, path)
        if first is None:
            first = lines
        different = [(a, b) for a, b in zip(first, lines) if a != b]
        require(len(first) == len(lines) and not different,
                f"{name} differs from {paths[0][0]}: {len(first)} and {len(lines)} lines"
                + "".join(f"\n  {a}\n  {b}" for a, b in different[:2]))
    return f"{len(paths)} readers, {len(first)} lines"


def active(folder, paths):
    """Parameters that one token uses: of a file what raising finds, as many as the config says."""
    found = {}
    for name, path in paths:
        program = os.path.join(folder, "program")
        call([LLMC, "compile", path, "-o", program, *sizes(path)])
        model = inspect(program)["model"]
        found[name] = model.get("active_parameters")
        require(found[name] and found[name] < model["parameters"], f"{name}: {found[name]} of {model['parameters']}")
    require(len(set(found.values())) == 1, f"active parameters are {found}")
    return str(found["config"])


def verified(folder, path, mesh, *flags):
    done = call([LLMC, "verify", path, "--mesh", mesh, *sizes(path, int(mesh[0])), "--global-batch", "4",
                 "--json", *flags], check=False)
    require(done.returncode in (0, 3), done.stderr[-1500:])
    report = json.loads(done.stdout)
    failed = [check["name"] for check in report["checks"] if not check["passed"]]
    require(report["passed"] and not failed, f"{failed}")
    return f"{len(report['checks'])} checks"


def collectives(folder, path, mesh, *flags):
    """Kind and bytes of every collective over tp, by phase, and how often a step runs it; of the
    update the bytes together, since the gradients of folded layers are one tensor."""
    program = os.path.join(folder, "program")
    call([LLMC, "compile", path, "--mesh", mesh, "-o", program, *sizes(path), *flags])
    found = {}
    for entry in inspect(program)["collectives"]:
        if "tp" in entry["axes"]:
            update = entry["phase"] == "update"
            key = (entry["phase"], entry["kind"], None if update else entry["bytes"])
            found[key] = found.get(key, 0) + entry["per_step"] * (entry["bytes"] if update else 1)
    return found


def unraised(folder, path, mesh, *flags):
    on, off = collectives(folder, path, mesh, *flags), collectives(folder, path, mesh, "--raise", "off", *flags)
    require(on, "no collective over tp")
    require(on == off, f"raised {on}, not raised {off}")
    return f"{sum(n for (phase, *_), n in on.items() if phase != 'update')} a step before the update"


suite = Suite("golden")
for number, architecture in enumerate(GOLDEN):
    place = os.path.join(MODELS, architecture)
    require(os.path.isdir(place), f"{place} is not there")
    files = [("config", os.path.join(place, "config.json"))] + [
        (name, os.path.join(place, name, "model.onnx")) for name in sorted(os.listdir(place))
        if os.path.exists(os.path.join(place, name, "model.onnx"))]
    for i, (name, path) in enumerate(files):
        suite.run(f"{architecture}/{name}", described, architecture, path)
        mesh = ["2x1x1", "1x2x1", "1x1x2"][(number + i) % 3]
        suite.run(f"{architecture}/{name} verified on {mesh}", verified, path, mesh)
        if architecture in MIXTURES:
            suite.run(f"{architecture}/{name} verified on 2x1x1 --ep 2", verified, path, "2x1x1", "--ep", "2")
            continue
        # One file of an architecture meets four ranks, unless all do.
        four = architecture in FOUR and (suite.full or i == 1)
        for mesh in ["1x1x2"] + ["1x1x4"] * four if name != "config" else []:
            suite.run(f"{architecture}/{name} not raised on {mesh}", unraised, path, mesh,
                      *(["--sequence-parallel", "off"] if architecture in UNCUT else []))
    if architecture in MIXTURES:
        suite.run(f"{architecture} has one number of active parameters", active, files)
    equal = [(name, path) for name, path in files if f"{architecture}/{name}" not in ROUNDED]
    suite.run(f"{architecture} is one model", same, architecture, equal)
suite.finish()
