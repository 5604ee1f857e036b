"""Whatever ends a run, nothing is lost: signals, full disks, a loss that is not finite."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import numpy as np

from harness import DATA, LLMC, Suite, call, compile_model, inputs, read_safetensors, require, write_safetensors

OWN = os.path.join(DATA, "gpt2")
TEXT = os.path.join(OWN, "text.bin")


SHARED = tempfile.TemporaryDirectory(prefix="llmc-")


def program(folder, mesh="2x2x2"):
    """FOLDER/program; each mesh is compiled once."""
    made, path = os.path.join(SHARED.name, mesh), os.path.join(folder, "program")
    if not os.path.exists(made):
        compile_model(os.path.join(OWN, "config.json"), made, "--seq", 16, "--global-batch", 4, "--mesh", mesh)
    shutil.copy(made, path)
    return path


def weights_after(path, folder, steps, *flags):
    """What an undisturbed run of so many steps saves."""
    to = os.path.join(folder, f"after-{steps}")
    call([path, "--data", TEXT, "--steps", steps, "--save", to, *flags])
    return read_safetensors(os.path.join(to, "model.safetensors"))


def require_equal(got, expected):
    require(got.keys() == expected.keys(), "other tensors")
    for name, value in got.items():
        require(np.array_equal(value, expected[name]), f"{name} differs")


def hash_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def steps_in(path):
    try:
        with open(path) as f:
            return f.read().count("\n")
    except FileNotFoundError:
        return 0


def started(folder, *command):
    """A run that has ended a step."""
    metrics = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(metrics):
        os.remove(metrics)
    # A program leaves a SIGHUP alone that nohup, perhaps around this test, told to ignore.
    child = subprocess.Popen([*command, "--data", TEXT, "--steps", "1000000", "--metrics", metrics],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    end = time.time() + 60
    while steps_in(metrics) == 0:
        require(child.poll() is None and time.time() < end, "the run makes no step")
        time.sleep(0.01)
    return child


def signals_save(folder):
    path = program(folder, "1x2x1")
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU):
        save = os.path.join(folder, which.name)
        child = started(folder, path, "--save", save)
        child.send_signal(which)
        out, err = child.communicate(timeout=60)
        require(child.returncode == 128 + which, f"{which.name}: exit {child.returncode}: {err}")
        steps = steps_in(os.path.join(folder, "metrics.jsonl"))
        require(f"stopped after step {steps} of" in out and f"the weights of step {steps}" in out, out[-300:])
        require_equal(read_safetensors(os.path.join(save, "model.safetensors")), weights_after(path, folder, steps))


def two_runs(folder):
    path, save = program(folder, "1"), os.path.join(folder, "shared")
    child = started(folder, path, "--save", save)
    metrics = os.path.join(folder, "metrics.jsonl")
    for flags, word in ((["--save", os.path.join(save, ".")], "another run will save to"),
                        (["--metrics", metrics, "--force"], "another run is writing it")):
        result = subprocess.run([path, "--data", TEXT, "--steps", "1", *flags], capture_output=True, text=True)
        require(result.returncode == 1 and word in result.stderr, f"{flags}: {result.returncode} {result.stderr}")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    require(steps_in(metrics) > 0 and "model.safetensors" in os.listdir(save), f"{os.listdir(save)}")


def ignored_hangup(folder):
    path, metrics = program(folder, "1"), os.path.join(folder, "metrics.jsonl")
    child = started(folder, "nohup", path)
    child.send_signal(signal.SIGHUP)
    before, end = steps_in(metrics), time.time() + 60
    while steps_in(metrics) < before + 3:
        require(child.poll() is None and time.time() < end, "SIGHUP ended a run that nohup had started")
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    require(child.returncode == 143, f"SIGTERM: exit {child.returncode}")


def signal_before_the_first_step(folder):
    path, pipe, save = program(folder, "1"), os.path.join(folder, "pipe"), os.path.join(folder, "save")
    os.mkfifo(pipe)  # without a reader, the run waits before its first step
    os.mkdir(save)
    with open(os.path.join(save, "model.safetensors"), "w") as f:
        f.write("old")
    child = subprocess.Popen([path, "--data", TEXT, "--metrics", pipe, "--save", save], stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, text=True)
    time.sleep(0.5)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    require(child.returncode == 143 and "before there was anything to keep" in err, f"{child.returncode}: {err}")
    require(os.listdir(save) == ["model.safetensors"], f"left behind: {os.listdir(save)}")
    with open(os.path.join(save, "model.safetensors")) as f:
        require(f.read() == "old", "the saved file of before has changed")


def stands(child):
    """Waits until a program uses no processor time any more."""
    def used():
        with open(f"/proc/{child.pid}/stat") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    before, end, still = -1, time.time() + 60, 0
    while still < 5:  # half a second
        require(time.time() < end, "the run does not stand")
        time.sleep(0.1)
        before, last = used(), before
        still = still + 1 if before == last and before > 0 else 0


def second_signal_ends_at_once(folder):
    path, pipe = program(folder, "1"), os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    child = subprocess.Popen([path, "--data", TEXT, "--steps", "1000000", "--metrics", pipe],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with open(pipe, "rb"):  # a reader that never reads: the run stands once the pipe is full
        stands(child)
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)  # an echo, as of timeout(1): it means the same
        time.sleep(0.5)
        require(child.poll() is None, "an echo of a signal ends the run")
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    require(child.returncode in (-signal.SIGINT, 130), f"exit {child.returncode}: {err}")


def pipe_without_reader(folder, child):
    _, err = child.communicate(timeout=60)
    require(child.returncode == 1 and "nobody opened this pipe" in err, err)


def metrics_through_pipes(folder):
    path, pipe, got = program(folder, "1"), os.path.join(folder, "pipe"), []
    os.mkfifo(pipe)

    def read():
        with open(pipe) as f:
            got.extend(json.loads(line)["step"] for line in f)
    reader = threading.Thread(target=read)
    reader.start()
    call([path, "--data", TEXT, "--steps", 5, "--metrics", pipe])
    reader.join()
    require(got == [1, 2, 3, 4, 5], f"steps {got}")
    out = call([path, "--data", TEXT, "--steps", 3, "--metrics", "/dev/stdout"]).stdout
    require(out.count('{"step":') == 3, out)
    call([path, "--data", TEXT, "--steps", 3, "--metrics", "/dev/null"])


def reader_that_leaves(folder):
    path, pipe, save = program(folder, "1"), os.path.join(folder, "pipe"), os.path.join(folder, "save")
    os.mkfifo(pipe)
    child = subprocess.Popen([path, "--data", TEXT, "--steps", "20", "--metrics", pipe, "--save", save],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with open(pipe) as f:
        f.readline()
    out, err = child.communicate(timeout=60)
    require(child.returncode == 1 and "Broken pipe" in err, f"{child.returncode}: {err}")
    require("step 20/20" in out, "the training ended early")
    require_equal(read_safetensors(os.path.join(save, "model.safetensors")), weights_after(path, folder, 20))


def on_full_disk(folder, size, *command, fill=""):
    """Runs in FOLDER/disk on a file system of `size`, where `fill` has been run before."""
    disk = os.path.join(folder, "disk")
    os.makedirs(disk, exist_ok=True)
    script = f'mount -t tmpfs -o size={size} none "$0" && cd "$0" && {fill or ":"} && {{ "$@"; rc=$?; ls -A; exit $rc; }}'
    done = call(["unshare", "-m", "sh", "-c", script, disk, *command, "--data", TEXT], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stdout[-500:]}{done.stderr}")
    return done.stdout, done.stderr


def full_disk_for_metrics_and_trace(folder):
    path, save = program(folder), os.path.join(folder, "save")
    out, err = on_full_disk(folder, "32k", path, "--steps", 400, "--metrics", "m.jsonl", "--trace", "t.json", "--save", save)
    require("--metrics: cannot write 'm.jsonl': No space left" in err, err)
    require("--trace: cannot write 't.json': No space left" in err, err)
    require("step 400/400" in out, out[-300:])
    require(out.splitlines()[-1] == "m.jsonl", f"left on the disk: {out.splitlines()[-2:]}")
    require_equal(read_safetensors(os.path.join(save, "model.safetensors")), weights_after(path, folder, 400))


def full_disk_for_the_saved_weights(folder):
    """It fills up during the run: what was saved before stays, the dump is still written."""
    path, dump, pipe = program(folder), os.path.join(folder, "dump"), os.path.join(folder, "pipe")
    expected = weights_after(path, folder, 200)
    size = os.path.getsize(os.path.join(folder, "after-200", "model.safetensors"))
    os.mkfifo(pipe)
    # Who reads the metrics fills the disk once a step has ended.
    script = (f'(read line; head -c {size // 2} /dev/zero > junk; cat > /dev/null) < {pipe} & '
              f'"$0" "$@" --steps 200 --metrics {pipe} --save save --dump {dump}; rc=$?; '
              'cat save/model.safetensors; ls -A save; exit $rc')
    out, err = on_full_disk(folder, size + (1 << 16), "sh", "-c", script, path,
                            fill="mkdir save && echo old > save/model.safetensors")
    require("--save: cannot write 'save/model.safetensors': No space left" in err, err)
    require("old\nmodel.safetensors\n" in out, f"the saved file of before: {out[-200:]}")
    got = read_safetensors(dump)
    require_equal({name: got["param:" + name] for name in expected}, expected)


def too_little_room_is_said_before(folder):
    path = program(folder)
    _, err = on_full_disk(folder, "64k", path, "--steps", 4, "--save", "save")
    require("the weights take" in err and "free" in err, err)


def not_finite(folder, *mesh):
    path, save, dump = program(folder, *mesh), os.path.join(folder, "save"), os.path.join(folder, "dump")
    flags = ["--lr", "1e4", "--clip", 0]
    done = call([path, "--data", TEXT, "--steps", 50, "--save", save, "--dump", dump, *flags], check=False)
    require(done.returncode == 1 and "lower --lr" in done.stderr, f"{done.returncode}: {done.stderr}")
    steps = len(read_safetensors(dump)["loss"])
    require(f"error: step {steps + 1}: " in done.stderr and f"the weights of step {steps} are in" in done.stderr, done.stderr)
    got = read_safetensors(os.path.join(save, "model.safetensors"))
    require_equal(got, weights_after(path, folder, steps, *flags))
    require(all(np.isfinite(value).all() for value in got.values()), "the saved weights are not finite")
    return f"after {steps} steps"


def not_finite_from_the_start(folder):
    """No step has changed anything, so that no option of the training is to blame."""
    path, file = program(folder, "1"), os.path.join(folder, "nan.safetensors")
    tensors = read_safetensors(os.path.join(OWN, "weights.safetensors"))
    name = max(tensors, key=lambda name: tensors[name].size)
    for nan in (np.nan, -np.nan):
        tensors[name] = np.full_like(tensors[name], nan)
        write_safetensors(file, tensors)
        done = call([path, "--data", TEXT, "--steps", 2, "--weights", file], check=False)
        require(done.returncode == 1 and "no step has changed the weights" in done.stderr, done.stderr)
        require("is nan" in done.stderr and "-nan" not in done.stderr, done.stderr)


def no_labels(folder):
    """Rows whose labels are all ignored are told."""
    path = program(folder, "1")
    np.save(os.path.join(folder, "input_ids.npy"), np.ones((4, 16), np.int64))
    np.save(os.path.join(folder, "labels.npy"), np.full((4, 16), -100))
    out = call([path, *inputs(folder), "--steps", 2]).stdout
    require(out.count("none of step 1 counts, all are ignored") == 1, out)


def compilation_that_is_stopped(folder):
    """Leaves neither a program nor a part of one."""
    seen, model = 0, os.path.join(OWN, "config.json")
    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for attempt in range(200):
            with subprocess.Popen([LLMC, "compile", model, "-o", "made", "-q"], cwd=folder) as run:
                while run.poll() is None and not os.listdir(folder):
                    pass
                run.send_signal(which)
                status = run.wait()
            left = os.listdir(folder)
            require(left in ([], ["made"]), f"left {left}")
            require(status == -which or left, f"exit status {status}")
            seen += status == -which
            if left:
                os.remove(os.path.join(folder, "made"))
            if status == -which:
                break
    require(seen >= 2, f"{seen} of 3 signals came while the program was written")


def standard_streams(folder):
    """One that is full is an error of its own; one that is closed is no file that is opened later."""
    model, path = os.path.join(OWN, "config.json"), program(folder, "1")
    for command in (["inspect", model], ["compile", "--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([LLMC, *command], stdout=full, stderr=subprocess.PIPE, text=True)
        require(done.returncode == 1 and done.stderr.endswith("llmc: error: standard output cannot be written: "
                "No space left on device\n"), done.stderr)
    run = f"exec <&- >&- 2>&-; {path} --data {TEXT} --steps 1 --save saved"
    require(subprocess.run(["bash", "-c", run], cwd=folder).returncode == 0, "closed streams")
    require(os.listdir(os.path.join(folder, "saved")), "nothing saved")


def inputs_survive(folder):
    path, data = program(folder, "1"), os.path.join(folder, "tokens.bin")
    with open(TEXT, "rb") as f, open(data, "wb") as to:
        to.write(f.read())
    os.symlink("tokens.bin", os.path.join(folder, "link"))
    os.link(data, os.path.join(folder, "hard"))
    os.symlink(".", os.path.join(folder, "here"))
    call([path, "--data", data, "--steps", 1, "--save", os.path.join(folder, "saved")])
    saved = os.path.join(folder, "saved", "model.safetensors")
    os.mkdir(os.path.join(folder, "alias"))
    os.link(saved, os.path.join(folder, "alias", "model.safetensors"))
    before = {name: hash_of(name) for name in (path, data, saved)}
    for flag in ("--metrics", "--trace", "--dump", "--count-collectives"):
        for name in ("tokens.bin", "./link", "hard", "here/here/tokens.bin", "program"):
            done = call([path, "--data", "link", "--steps", 1, flag, name, "--force"], check=False, cwd=folder)
            require(done.returncode == 1 and f"{flag} '{name}' is the same file as" in done.stderr, done.stderr)
    for to in ("saved", "alias"):
        done = call([path, "--data", data, "--weights", "saved", "--save", to, "--steps", 1], check=False, cwd=folder)
        require(done.returncode == 1 and "is the same file as --weights" in done.stderr, done.stderr)
    done = call([path, "--data", data, "--dump", "one", "--trace", "here/one", "--steps", 1], check=False, cwd=folder)
    require(done.returncode == 1 and "is the same file as" in done.stderr, done.stderr)
    require(all(hash_of(name) == value for name, value in before.items()), "an input has changed")


def changed_weights(folder):
    """One byte in 40 MiB that a sample would miss; the model's own file is never saved over."""
    tensors = {name: value for name, value in read_safetensors(os.path.join(OWN, "weights.safetensors")).items()}
    tensors["unused"] = np.zeros(40 << 18, np.float32)
    model = os.path.join(folder, "model.safetensors")
    write_safetensors(model, tensors)
    shutil.copy(os.path.join(OWN, "config.json"), folder)
    path = os.path.join(folder, "program")
    compile_model(os.path.join(folder, "config.json"), path, "--seq", 16, "--global-batch", 4, "--mesh", "1")
    run = [path, "--data", TEXT, "--steps", 2, "--save", os.path.join(folder, "saved")]
    call(run)
    done = call([*run[:-1], folder], check=False)
    require(done.returncode == 1 and "is the same file as the model's weights" in done.stderr, done.stderr)
    with open(model, "r+b") as f:
        f.seek(-(21 << 20) - 1, os.SEEK_END)
        f.write(b"x")
    saved = os.path.join(folder, "saved", "model.safetensors")
    before = hash_of(saved)
    done = call(run, check=False)
    require(done.returncode == 1 and f"'{model}' has changed since" in done.stderr, done.stderr)
    require(hash_of(saved) == before, "saved all the same")


def metrics_are_not_overwritten(folder):
    path, metrics = program(folder, "1"), os.path.join(folder, "m.jsonl")
    run = [path, "--data", TEXT, "--steps", 2, "--metrics", metrics]
    call(run)
    before = hash_of(metrics)
    done = call(run, check=False)
    require(done.returncode == 1 and "--force replaces it" in done.stderr, done.stderr)
    require(hash_of(metrics) == before, "it has changed")
    call([*run, "--force"])
    require(steps_in(metrics) == 2, "not replaced")


def launchers(folder):
    path = program(folder, "1")
    run = [path, "--data", TEXT, "--steps", 1]
    refused = [{"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"},
               {"SLURM_NTASKS": "8", "SLURM_PROCID": "3"}, {"SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"},
               {"OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_SIZE": "4", "PMI_RANK": "0"}, {"PMIX_RANK": "1"},
               {"WORLD_SIZE": "8", "RANK": "0"}]
    for variables in refused:
        done = call(run, check=False, env={**os.environ, **variables})
        require(done.returncode == 1 and "started by a launcher" in done.stderr, f"{variables}: {done.stderr}")
    # One process: of a batch script, of `srun -n 1` and `mpirun -n 1`.
    for variables in ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"},
                      {"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"},
                      {"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}):
        call(run, env={**os.environ, **variables})


suite = Suite("failures")
os.mkfifo(os.path.join(SHARED.name, "pipe"))
unread = subprocess.Popen([program(SHARED.name, "1"), "--data", TEXT, "--metrics", os.path.join(SHARED.name, "pipe")],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
suite.run("signals save the weights of the last step", signals_save)
suite.run("SIGHUP under nohup", ignored_hangup)
suite.run("two runs with one output", two_runs)
suite.run("a signal before the first step changes nothing", signal_before_the_first_step)
suite.run("a second signal ends at once", second_signal_ends_at_once)
suite.run("a loss that is not finite", not_finite)
suite.run("a loss that is not finite, one rank", not_finite, "1")
suite.run("weights that are no numbers", not_finite_from_the_start)
suite.run("labels that are all ignored", no_labels)
suite.run("standard streams that are full or closed", standard_streams)
suite.run("a compilation that is stopped", compilation_that_is_stopped)
suite.run("metrics through pipes and devices", metrics_through_pipes)
suite.run("a reader that leaves", reader_that_leaves)
suite.run("no output overwrites an input", inputs_survive)
suite.run("metrics of another run are kept", metrics_are_not_overwritten)
suite.run("weights that have changed", changed_weights)
suite.run("launchers are refused", launchers)
mounts = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
for title, test in (("a full disk for metrics and trace", full_disk_for_metrics_and_trace),
                    ("a full disk for the saved weights", full_disk_for_the_saved_weights),
                    ("too little room for the weights", too_little_room_is_said_before)):
    if mounts:
        suite.run(title, test)
    else:
        suite.skip(title, "this user cannot mount a small file system")
suite.run("a pipe without a reader is given up", pipe_without_reader, unread)
suite.finish()
