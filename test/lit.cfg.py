# Text tests: IR in, IR or diagnostics out. Run by scripts/run-tests.py, or by
# hand: /usr/lib/llvm-22/bin/lit -v test/passes/3-shard
import os

import lit.formats

config.name = "llmc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["data"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))

repository = os.path.dirname(config.test_source_root)
build = lit_config.params.get("build", os.path.join(repository, "build"))
config.test_exec_root = os.path.join(build, "test-output")

# llmc-opt and llmc of this tree; FileCheck, not, count and split-file of LLVM.
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), "/usr/lib/llvm-22/bin", os.environ["PATH"]]
)
# A variable without $ ends with its function: one test cannot lean on another.
config.environment["FILECHECK_OPTS"] = "-enable-var-scope -dump-input-filter=error"
config.substitutions.append(("%data", os.path.join(config.test_source_root, "data")))
config.substitutions.append(("%examples", os.path.join(repository, "examples")))
