#!/usr/bin/env python3
"""Comments are sentences that begin with what the code does.

Each comment block of a header begins with a verb in the third person: "Returns the size". Comments
behind code on its line, and rulers (//===-- Name --===//), are free. No comment block of a .cpp
file begins with a word that makes a riddle of it: "What is lost".
"""
import re

import tree

VERBS = set(
    """
    Aborts Accesses Accumulates Adds Advances Allocates Allows Annotates Answers Appends Applies
    Assembles Assigns Begins Belongs Binds Borrows Bounds Brings Broadcasts Builds Calls Changes Checks Chooses
    Claims Classifies Clones Collects Combines Compares Compiles Computes Continues Controls
    Converts Copies Corrects Counts Creates Cuts Decides Declares Decodes Defines Dequantizes
    Describes Differentiates Disables Distinguishes Distributes Divides Draws Drives Drops Embeds Emits
    Ends Enters Enumerates Erases Estimates Evaluates Exchanges Executes Expands Explains
    Extends Extracts Fails Fills Finds Flattens Folds Forbids Formats Frees Gathers Gives Groups Handles
    Hashes Hints Holds Identifies Implements Imports Indexes Inserts Installs Interprets Joins Keeps
    Lays Leaves Lets Limits Links Lists Loads Locates Locks Looks Lowers Makes Maps Marks
    Measures Merges Mixes Moves Multiplies Mutates Names Normalizes Notes Numbers Opens Orders
    Owns Pairs Parses Passes Pins Places Points Predicts Prefetches Prepares Prices Prints Propagates Proves
    Provides Puts Queues Raises Reads Receives Recognises Recognizes Records Recovers Redraws
    Reduces Refers Refuses Registers Regroups Releases Removes Renames Repeats Replaces Reports
    Represents Requests Resets Reshapes Resolves Restores Restricts Returns Rewrites Rotates Rounds
    Runs Scales Scans Seeds Selects Separates Serializes Serves Sets Shares Shortens Shows Simulates Skips Slices
    Spells Splits Starts States Stores Strips Sums Sweeps Takes Tells Tests Times Traces Tracks
    Trains Transforms Translates Transposes Tries Truncates Turns Uses Verifies Visits Waits Wakes
    Wraps Writes Follows Widens
    """.split()
)
RIDDLES = set("How Of What Where Whether Who Whoever Whose Why".split())
check = tree.Check("comments")


def blocks(name):
    """Yields (line, first word, text) of each run of lines that hold only a comment."""
    before, column = "code", -1  # of the line before: what it is, and where its comment starts
    for number, line in enumerate(tree.lines(name), 1):
        start = line.find("//")
        only = start >= 0 and not line[:start].strip()
        ruler = only and re.match(r"\s*//\s*[=-]{2,}", line)
        text = line[start:].lstrip("/<! ")
        goes_on = before == "comment" or (before == "trailing" and start == column)
        if only and text and not ruler and not goes_on:
            yield number, re.match(r"[A-Za-z'-]*", text).group(0), text
        if only and not ruler:
            before = before if goes_on else "comment"
        else:
            before = "trailing" if start > 0 and not ruler else "code"
        column = start


for name in tree.matching(r"(dialects|lib|passes|runtime|tools|test|bench)/.*\.(h|cpp)$"):
    check.expect(True, name, "")
    for number, word, text in blocks(name):
        if name.endswith(".h"):
            check.expect(
                word in VERBS, f"{name}:{number}",
                f"begins with '{word}': say first what the thing does, with a verb (Returns, Holds, Describes); "
                f"a verb that is missing goes into VERBS of test/checks/comments.py: {text[:60]}",
            )
        else:
            check.expect(
                word not in RIDDLES, f"{name}:{number}",
                f"begins with '{word}': say in a whole sentence what the code does or checks: {text[:60]}",
            )
check.finish()
