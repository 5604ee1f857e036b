#!/usr/bin/env python3
"""Kernels for NVIDIA's chips: all of them assemble, without spills and with wide accesses;
and the tool that compares them on a card does so, shown with a driver without a card.

Needs an assembler (libnvJitLink or ptxas); without one all but its absence is skipped.
No kernel is run here: test/fakes computes with the CPU's kernels in their place.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LLMC_BUILD", os.path.join(ROOT, "build"))
LLMC, CHECK = (os.path.join(BUILD, "bin", name) for name in ("llmc", "llmc-gpu-check"))
FAKE = os.path.join(BUILD, "test", "fakes", "llmc-fake-cuda.so")
SMALL = os.path.join(ROOT, "test", "data", "gpt2", "config.json")
MIXTURE = os.path.join(ROOT, "test", "data", "deepseek_v3", "config.json")
DATA = os.path.join(ROOT, "test", "data", "gpt2", "text.bin")
CHIPS = ["sm_80", "sm_90", "sm_100"]
FAMILIES = ["gpt2", "llama", "bert"]
MOST_KERNELS = 60
SECONDS_A_CHIP = 4  # where nothing else runs; tests share the machine
LIBRARIES = ("cuBLASLt", "cuDNN")


class Failure(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Failure(what)


def call(*arguments, **environment):
    return subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=900, env=dict(os.environ, **environment))


def make(folder, model, name, *flags):
    """Compiles `model` with its kernels for all chips; the program and the seconds it took."""
    out = os.path.join(folder, name)
    start = time.monotonic()
    done = call(LLMC, "compile", model, "-o", out, "--weights", "random", "--cuda-kernels", "all", *flags)
    require(done.returncode == 0, f"llmc compile: {done.stderr[-3000:]}")
    return out, time.monotonic() - start


def images(program):
    done = call(LLMC, "inspect", program, "--json")
    require(done.returncode == 0, f"llmc inspect: {done.stderr}")
    return json.loads(done.stdout)


def problems(image, kernels):
    """What is not as promised of one chip's kernels."""
    found = []
    for kernel in image["kernels"]:
        name = kernel["name"]
        for what in ("spill_stores", "spill_loads", "stack"):
            if kernel[what]:
                found.append(f"{name}: {kernel[what]} bytes of {what}")
        if not 1 <= kernel["registers"] <= 255:
            found.append(f"{name}: {kernel['registers']} registers")
        for number, buffer in enumerate(kernel["buffers"]):
            if buffer["streaming"] and buffer["access"] < 16:
                found.append(f"{name}: buffer {number} is streamed {buffer['access']} bytes at a time")
    for kernel in image["not_emitted"]:
        if not kernel["reason"].startswith(LIBRARIES):
            found.append(f"{kernel['name']}: not emitted, {kernel['reason']}")
    if len(image["kernels"]) + len(image["not_emitted"]) != kernels:
        found.append("some kernel of the program is neither emitted nor refused")
    return [f"{image['chip']}: {one}" for one in found]


def assembled(family):
    def test(folder):
        model = os.path.join(folder, "config.json")
        with open(os.path.join(ROOT, "test", "cuda", "models", family + ".json")) as f:
            config = f.read()
        with open(model, "w") as f:
            f.write(config)
        program, seconds = make(folder, model, "program", "--seq", 128, "--micro-batch", 2)
        said = images(program)
        cuda, kernels = said["cuda"], len(said["kernels"])
        require([image["chip"] for image in cuda] == CHIPS, "a chip is missing")
        require(kernels <= MOST_KERNELS, f"{kernels} kernels")
        found = [one for image in cuda for one in problems(image, kernels)]
        require(not found, "\n".join(found))
        for image in cuda:
            require(image["status"] == "assembled, never run", image["status"])
            streamed = sum(buffer["streaming"] for kernel in image["kernels"]
                           for buffer in kernel["buffers"])
            require(streamed >= 8, f"only {streamed} buffers count as streamed")
            registers = [kernel["registers"] for kernel in image["kernels"]]
            print(f"        {family} {image['chip']}: {len(registers)} kernels, {min(registers)} to "
                  f"{max(registers)} registers, {image['cubin_bytes']} bytes, {image['assembler']}")
        print(f"        {family}: compiled in {seconds:.1f} s")
        require(seconds <= 10 * SECONDS_A_CHIP * len(CHIPS), f"took {seconds:.1f} s")
        text = call(LLMC, "inspect", program).stdout
        require("cuda kernels for sm_100: assembled, never run" in text, "inspect does not say it")
    return test


def both_assemblers(folder):
    """The library and the program agree on what must hold, wherever both are installed."""
    seen = {}
    for which in ("nvjitlink", "ptxas"):
        out = os.path.join(folder, which)
        done = call(LLMC, "compile", SMALL, "-o", out, "--cuda-kernels", "sm_90", LLMC_CUDA_ASSEMBLER=which)
        if done.returncode and "no CUDA assembler" in done.stderr:
            continue
        require(done.returncode == 0, done.stderr)
        image, = images(out)["cuda"]
        require(which in image["assembler"].lower(), image["assembler"])
        seen[which] = sorted((k["name"], k["shared"], json.dumps(k["loads"], sort_keys=True))
                             for k in image["kernels"])
    require(seen, "no assembler at all")
    require(len(set(map(str, seen.values()))) == 1, "they say different things")


def without_assembler(folder):
    out = os.path.join(folder, "program")
    done = call(LLMC, "compile", SMALL, "-o", out, "--cuda-kernels", "sm_90", LLMC_CUDA_PATH=folder)
    require(done.returncode == 1 and "no CUDA assembler of version 12.8 or later" in done.stderr
            and folder in done.stderr and "nvidia-cuda-nvcc" in done.stderr, done.stderr)
    require(not os.path.exists(out), "wrote a program all the same")


def refused(folder):
    out = os.path.join(folder, "program")
    for flags, code, words in [
            (["--target", "cuda"], 1, "--target cuda is not built yet; use --target cpu, and --cuda-kernels"),
            (["--cuda-kernels", "sm_75"], 2, "chips are sm_80, sm_90, sm_100 or all, got 'sm_75'"),
            (["--cuda-kernels", ""], 2, "--cuda-kernels needs")]:
        done = call(LLMC, "compile", SMALL, "-o", out, *flags)
        require(done.returncode == code and words in done.stderr, f"{flags}: {done.stderr}")


def damaged(folder):
    """A flipped bit of a cubin is found before anything is made of it."""
    program, _ = make(folder, SMALL, "program")
    with open(program, "rb") as f:
        text = f.read()
    at = text.rfind(b"\x7fELF")  # the last cubin
    flipped = os.path.join(folder, "flipped")
    with open(flipped, "wb") as f:
        f.write(text[:at + 64] + bytes([text[at + 64] ^ 1]) + text[at + 65:])
    done = call(LLMC, "inspect", flipped)
    require(done.returncode == 1 and "checksum of section 'cuda-sm_100'" in done.stderr, done.stderr)


def same_on_the_cpu(folder):
    """The CPU's kernels compute the same bits, whether or not there are some for cards."""
    dumps = []
    for chips in ([], ["--cuda-kernels", "sm_90"]):
        program, dump = os.path.join(folder, "program"), os.path.join(folder, "dump.safetensors")
        done = call(LLMC, "compile", SMALL, "-o", program, "--weights", "random", *chips)
        require(done.returncode == 0, f"llmc compile: {done.stderr}")
        done = call(program, "--steps", 2, "--dump", dump, "--data", DATA)
        require(done.returncode == 0, f"{chips}: {done.stderr}")
        with open(dump, "rb") as f:
            dumps.append(f.read())
    require(dumps[0] == dumps[1], "losses, gradients or weights differ")


def check(program, fault="", chip=90, driver=FAKE):
    return call(CHECK, program, "--repeats", 2, LLMC_CUDA_DRIVER=driver, LLMC_FAKE_CUDA_FAULT=fault,
                LLMC_FAKE_CUDA_CHIP=str(chip), LLMC_FAKE_CUDA_PROGRAM=program)


def compared(folder):
    program, _ = make(folder, SMALL, "program")
    kernels = len(images(program)["cuda"][1]["kernels"])
    for chip, made in [(80, "sm_80"), (89, "sm_80"), (90, "sm_90"), (100, "sm_100"), (103, "sm_100")]:
        done = check(program, chip=chip)
        require(done.returncode == 0, f"{chip}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        require(f"kernels for {made}" in done.stdout, done.stdout)
        require(f"{kernels} kernels right, 0 wrong, 0 not run" in done.stdout, done.stdout)
        require("cuBLASLt" in done.stdout and "cuDNN" in done.stdout, "says not what is missing")


def faults(folder):
    """Each fault of a card or of a kernel is found and named."""
    program, _ = make(folder, SMALL, "program")
    for fault, words in [("wrong", "expected"), ("nan", "nan"), ("outside", "wrote outside of its results"),
                         ("halves", "two halves of the rows"), ("no-memory", "CUDA_ERROR_OUT_OF_MEMORY"),
                         ("launch", "CUDA_ERROR_LAUNCH_FAILED")]:
        done = check(program, fault)
        require(done.returncode == 1 and words in done.stdout + done.stderr,
                f"{fault}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    done = check(program, chip=75)
    require(done.returncode == 1 and "carries no kernels for this card" in done.stderr, done.stderr)
    bare = os.path.join(folder, "bare")
    require(call(LLMC, "compile", SMALL, "-o", bare).returncode == 0, "llmc compile")
    done = check(bare)
    require(done.returncode == 1 and "compile it with --cuda-kernels all" in done.stderr, done.stderr)


def compared_in_bf16(folder):
    """A mixture in bf16: views of single numbers, indices of experts, and results that may be
    one rounding off where card and CPU lie on either side of a tie."""
    out = os.path.join(folder, "program")
    done = call(LLMC, "compile", MIXTURE, "-o", out, "--weights", "random", "--cuda-kernels", "sm_90",
                "--precision", "bf16", "--moe-balance", "bias")
    require(done.returncode == 0, f"llmc compile: {done.stderr[-3000:]}")
    for fault, code, words in [("", 0, " 0 wrong, 0 not run"), ("one-rounding", 0, " 0 wrong"),
                               ("two-roundings", 1, "element 0: expected"),
                               ("many-roundings", 1, "are one rounding off, more than ties explain")]:
        done = check(out, fault)
        require(done.returncode == code and words in done.stdout,
                f"{fault}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr}")


def no_card(folder):
    for fault, driver, words in [("", os.path.join(folder, "none.so"), "no CUDA driver"),
                                 ("no-device", FAKE, "CUDA_ERROR_NO_DEVICE")]:
        done = check(os.path.join(folder, "program"), fault, driver=driver)
        require(done.returncode == 77 and done.stdout.startswith("skipped: ") and words in done.stdout,
                f"exit {done.returncode}: {done.stdout}{done.stderr}")


def main():
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        probe = call(LLMC, "compile", SMALL, "-o", os.path.join(folder, "probe"), "--cuda-kernels", "sm_90")
    missing = "no CUDA assembler" in probe.stderr
    everywhere = [without_assembler, refused, no_card]
    for name, test in [(f.__name__, f) for f in everywhere] + [
            ("assembled " + family, assembled(family)) for family in FAMILIES] + [
            (f.__name__, f) for f in (same_on_the_cpu, both_assemblers, damaged, compared, compared_in_bf16, faults)]:
        if missing and test not in everywhere:
            print(f"skipped {name}: no CUDA assembler is installed")
            skipped += 1
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                test(folder)
        except Exception as error:  # one broken test is one failure
            detail = error if isinstance(error, Failure) else traceback.format_exc()
            print(f"FAILED  {name}: {detail}", flush=True)
            failed += 1
        else:
            print(f"ok      {name}", flush=True)
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
