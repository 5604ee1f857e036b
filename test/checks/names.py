#!/usr/bin/env python3
"""No pass and no reader of ONNX files reads a name to decide anything.

Renaming every node, value and tensor must change nothing. What may look at names:
the files below, each for its reason.
"""
import re

import tree

# Path -> {pattern: why this is no decision}.
ALLOWED = {
    "lib/onnx/convert/ConvertMatmul.cpp": {r'\("(\.\.\.|->)"\)': "reads the equation of Einsum"},
    "lib/onnx/convert/ConvertMicrosoft.cpp": {"com.microsoft::": "splits the domain from an op type"},
    "lib/onnx/file/TorchNames.cpp": {
        r"operand\.consume_front|target\)": "reads the call that an exporter wrote as metadata",
        r"text\.contains|kind\.starts_with": "reads the signature that an exporter wrote as metadata",
        r"rest\.consume_front|path\.consume_front|name\.": "finds what a parameter is called when it is saved, and so that it is one",
    },
    "lib/onnx/Import.cpp": {"StringSwitch": "makes inputs that nobody gives, as users of exported models know them"},
    "lib/onnx/bind/LostParameters.cpp": {r"name\.c": "finds other names of a parameter, so that they are not said to be lost"},
    "passes/6-emit/cuda/Assembler.cpp": {r"release\.consume_front": "reads the version that ptxas prints"},
    "passes/6-emit/cuda/KernelStats.cpp": {r"part|ptx|body|line|instruction": "reads the assembler's log and PTX"},
    "passes/2-train/Differentiate/ReverseMode.cpp": {"NameLoc": "names the node in an error"},
}

SUSPECTS = {
    r"\b(?:getSymName|getName|getNameAttr|name)\(\)(?:\.\w+\(\))?\s*[=!]=\s*\"": "compares a name with a text",
    r"\"\s*[=!]=\s*[\w.>-]*\b(?:getSymName|getName|name)\(\)": "compares a name with a text",
    r"\b(?:isa|cast|dyn_cast|dyn_cast_or_null|dyn_cast_if_present)<[^<>]*NameLoc": "reads a name out of a location",
    r"[.>](?:contains|starts_with|ends_with|startswith|endswith|find|rfind|consume_front|consume_back|count|contains_insensitive)\(\s*\"":
        "looks for a text in a name",
    r"\b(?:llvm::Regex|std::regex|GlobPattern|StringSwitch)\b": "matches texts",
}
# A lookup of an attribute, of an ONNX attribute or of an option by its key is
# no decision by a name of the model.
KEYS = re.compile(
    r"attribute|getAttr|hasAttr|dict|Dictionary|\bbinding\.|\bnode\.find\(|\bop_type\b|opType|getOptions?\b|option", re.I
)

check = tree.Check("decisions by name")
used = set()
for name in tree.matching(r"(passes|lib/onnx)/.*\.(cpp|h)$"):
    code = tree.blank_comments_and_strings(tree.text(name), strings=False)
    found = []
    for number, line in enumerate(code.splitlines(), 1):
        for pattern, what in SUSPECTS.items():
            if not re.search(pattern, line) or KEYS.search(line):
                continue
            reasons = [allowed for allowed in ALLOWED.get(name, {}) if re.search(allowed, line)]
            used.update((name, allowed) for allowed in reasons)
            if not reasons:
                found.append(f"line {number} {what}: {line.strip()[:80]}")
    check.expect(not found, name, "; ".join(found))
for name, patterns in ALLOWED.items():
    for pattern in patterns:
        check.expect((name, pattern) in used, "test/checks/names.py", f"allows '{pattern}' in {name}, which is not there")
check.finish()
