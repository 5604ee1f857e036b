#!/usr/bin/env python3
"""Sizes: a warning at the soft limit, a failure at the hard one (lines)."""
import re

import tree

PASS, SOURCE, HEADER, FUNCTION = (300, 700), (400, 900), (120, 300), (50, 120)
NOT_FUNCTION = re.compile(r"^(?:if|for|while|switch|catch|else|do|try|return|constexpr)\b")
check = tree.Check("size budgets")


def functions(source):
    """(name, first line, lines) of the outermost function bodies; lambdas belong to them."""
    code = tree.blank_comments_and_strings(source)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
    start, body, stack, inside = 0, None, [], 0  # inside: open parentheses
    for at, character in enumerate(code):
        if character in "()":
            inside = max(0, inside + (1 if character == "(" else -1))
        elif character == "{" and inside and body is None:
            stack.append(None)  # a default argument or an initializer, not a scope
        elif character == "{":
            head = code[start:at].strip()
            if body is None:
                match = re.search(
                    r"([~\w:<>]+|operator\W+)\s*\((?:[^{};]|\{[^{}]*\})*\)\s*"
                    r"(?:const|noexcept|override|final|mutable|&|->[^{};]+|:(?:[^{};]|\{[^{}]*\})*|\s)*$", head)
                scope = re.match(
                    r"(?:template\s*<[^{}]*?>\s*(?=class|struct|union))?(?:inline\s+)?"
                    r"(?:namespace|class|struct|union|enum|extern)\b", head)
                if match and not scope and not NOT_FUNCTION.match(head) and "=" not in re.sub(r"operator\W+", "", head).split("(")[0]:
                    body = (match.group(1), at, len(stack), start)
            stack.append((at, inside))
            inside, start = 0, at + 1
        elif character == "}":
            opened = stack.pop() if stack else None
            if opened is None:
                continue
            inside = opened[1]
            if body and len(stack) == body[2]:
                if re.match(r"\s*[,{]", code[at + 1 : at + 200]):  # a member's initializer
                    start, body = body[3], None
                    continue
                first = code.count("\n", 0, body[1]) + 1
                yield body[0], first, code.count("\n", body[1], at) + 1
                body = None
            start = at + 1
        elif character == ";":
            start = at + 1


def judge(where, what, got, limits):
    soft, hard = limits
    check.expect(got <= hard, where, f"{what} has {got} lines, the limit is {hard}")
    if soft < got <= hard:
        check.warn(where, f"{what} has {got} lines, aim at {soft}")


for name in tree.matching(r"(dialects|lib|passes|runtime|test|tools|cmake)/.*\.(cpp|h)$"):
    count = len(tree.lines(name))
    if name.endswith(".h"):
        judge(name, "the header", count, HEADER)
    elif re.match(r"passes/[^/]+/[^/]+/", name):
        judge(name, "the pass file", count, PASS)
    else:
        judge(name, "the file", count, SOURCE)
    for function, line, length in functions(tree.text(name)):
        judge(f"{name}:{line}", f"function {function}", length, FUNCTION)
check.finish()
