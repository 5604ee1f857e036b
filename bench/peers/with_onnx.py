"""ONNX Runtime and IREE: with_onnx.py WORK infer onnxruntime|iree ITERATIONS -> one JSON line.

The file is PyTorch's own export of the model in with_torch.py.
"""
import json
import math
import pathlib
import resource
import sys
import tempfile
import time

import numpy as np

from shapes import WORKS


def export(work, path):
    import torch
    import with_torch
    torch.manual_seed(0)
    ids = torch.randint(0, work.words, (work.rows, work.tokens))
    torch.onnx.export(with_torch.Model(work).eval(), (ids,), path, dynamo=True, opset_version=18,
                      external_data=False, verbose=False)
    return ids.numpy()


def main():
    work, how, iterations = WORKS[sys.argv[1]], sys.argv[3], int(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        ids = export(work, str(path))
        if how == "onnxruntime":
            import onnxruntime
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 2
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            name = session.get_inputs()[0].name

            def step():
                return float(session.run(None, {name: ids})[0].ravel()[-1])
        else:
            import iree.compiler.tools as tools
            import iree.runtime as runtime
            from iree.compiler.tools.import_onnx import __main__ as import_onnx
            mlir = path.with_suffix(".mlir")
            import_onnx.main(import_onnx.parse_arguments([str(path), "-o", str(mlir), "--opset-version", "18"]))
            code = tools.compile_file(str(mlir), target_backends=["llvm-cpu"], input_type="onnx",
                                      extra_args=["--iree-llvmcpu-target-cpu=host",
                                                  "--iree-llvmcpu-stack-allocation-limit=1048576"])
            config = runtime.Config("local-task")
            program = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)
            names = program.vm_module.function_names
            entry = program[next(name for name in names if "$" not in name and not name.startswith("__"))]
            device = runtime.asdevicearray(config.device, ids)

            def step():
                return float(np.asarray(entry(device)).ravel()[-1])
        times = []
        for _ in range(iterations + 2):
            start = time.perf_counter()
            last = step()
            times.append(time.perf_counter() - start)
    assert math.isfinite(last)
    print(json.dumps({"times": times[2:], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


main()
