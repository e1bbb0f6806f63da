"""The examples for training, with stand-ins for GPUs and for the programs of their images."""
import json
import os
import re
import signal
import shutil
import socket
import subprocess
import tempfile

from foreground import Place
from harness import BINARY, PATIENCE, SLOW, wait_until
from machine import Machine

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAND_INS = ("torchrun", "deepspeed", "mpirun", "python", "jupyter", "pip", "apt-get")
SAYS = {"torchrun-ddp": "2 nodes, 16 processes", "jax-multihost": "4 processes", "tensorflow-ps": "4 servers",
        "deepspeed": "2 hosts, 16 slots", "horovod": "4 hosts, 16 slots"}

WHERE = {"first": r"step (\d+) is saved", "second": r"begins at step (\d+)"}


def example(name, programs):
    """The text of an example that finds its programs in that directory."""
    with open(os.path.join(TOP, "examples", name + ".yaml"), encoding="utf-8") as f:
        return re.sub(r"^( *)((?:preC|c)ommands:)\n( *)", rf"\1\2\n\3- export PATH={programs}:$PATH\n\3", f.read(), flags=re.M)


def prepare(place, name):
    """The example in its directory, and stand-ins beside it."""
    for program in STAND_INS:
        with open(os.path.join(TOP, "tests", "local", "stand_in"), encoding="utf-8") as f:
            place.write(program, f.read())
        os.chmod(os.path.join(place.cwd, program), 0o755)
    place.write(name + ".yaml", example(name, place.cwd))


def has_sshd():
    """Under sanitizers, pai-runtime has no sshd of its own, and this machine may have none."""
    runtime = os.path.join(os.path.dirname(BINARY), "pai-runtime")
    version = subprocess.run([runtime, "version"], capture_output=True, check=True).stdout
    return b"dropbear" in version or shutil.which("sshd")


def test_training_examples_meet_and_succeed(check):
    """All tasks meet where the variables say, and the job succeeds."""
    for name, says in SAYS.items():
        if name in ("deepspeed", "horovod") and not has_sshd():
            print(f"     {name}: skipped: there is no sshd", flush=True)
            continue
        with Place(gpus=32) as p:
            prepare(p, name)
            code, out, err = p.run(name + ".yaml")
            check.ok(f"{name}: {says}", code == 0 and re.search(rf"^(\S+ \| )?{says}$", out, re.M), out + err)


def test_notebook_example_listens_until_it_is_stopped(check):
    """It listens on its port until it is stopped."""
    with Place(gpus=1) as p:
        prepare(p, "notebook")
        with p.start("notebook.yaml") as c:
            check.ok("ready", c.says("ready"), c.stderr)
            address = re.search(r"^http://(.*):(\d+)/$", c.stdout, re.M)
            with socket.create_connection((address.group(1), int(address.group(2)))) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                check.ok("answers", s.recv(16).startswith(b"HTTP/1.0 "))
            c.process.send_signal(signal.SIGINT)
            check.equal("stopped", c.end(), 3)


def test_checkpoint_example_continues_after_a_stop(check):
    """When the job is stopped, it saves its state; the same job, submitted again, continues from
    there."""
    with tempfile.TemporaryDirectory(prefix="rest-lit-storage.", dir="/var/tmp") as storage:
        os.chmod(storage, 0o777)
        facts = os.path.join(storage, "facts.json")
        with open(facts, "w", encoding="utf-8") as f:
            json.dump({"storages": [{"name": "nfs", "path": storage}]}, f)
        with open(os.path.join(TOP, "examples", "checkpoint.yaml"), encoding="utf-8") as f:
            text = f.read().replace("LAST = 600", "LAST = 30")
        with Machine("--facts", facts) as m:
            for name, begins, ends in (("first", "begins at step 0", "stopped: step "), ("second", "begins at step ", "finished")):
                reply = m.submit(text.replace("name: checkpoint", f"name: {name}"))
                check.equal(f"{name}: submitted", reply.status, 202)
                check.ok(f"{name}: begins", wait_until(lambda n=name, b=begins: b in m.log(n, "train")))
                if name == "first":
                    m.stop_job(name)
                check.equal(f"{name}: ends", m.wait(name), "STOPPED" if name == "first" else "SUCCEEDED")
                check.ok(f"{name}: says so", ends in m.log(name, "train"), m.log(name, "train"))
                step = re.search(WHERE[name], m.log(name, "train"))
                check.ok(f"{name}: where", step, m.log(name, "train"))
                if name == "second":
                    check.equal("goes on from there", step.group(1), saved)
                saved = step.group(1)


def test_demo_runs_two_jobs_in_60_lines(check):
    """`make demo` runs two jobs by `curl -X POST` and prints their output, a Framework and other
    examples in less than 60 lines."""
    done = subprocess.run(["bash", os.path.join(TOP, "tests/tools/demo"), BINARY], capture_output=True, text=True, check=False, timeout=10 * PATIENCE * SLOW)
    lines = done.stdout.splitlines()
    check.ok("runs", done.returncode == 0 and len(lines) < 60 and not done.stderr, (done.returncode, len(lines), done.stderr))
    commands = [line for line in lines if line.startswith("$ ")]
    check.equal("the server first, then both jobs", [line.split()[1] for line in commands[:4]], ["rest-lit", "diff", "curl", "curl"])
    check.ok("v1 and v2", commands[2].endswith("/api/v1/jobs") and commands[3].endswith("/api/v2/jobs"), commands)
    for task in ("ps[0]", "ps[1]", "worker[0]", "worker[1]"):
        check.ok(f"{task} of tfDemo", any(line.startswith(f"{task} | ") and " 18" in line for line in lines), lines)
    check.ok("pytorch-mnist", re.search(r"^port \d+ says epoch 10: weight ", done.stdout, re.M), lines)
    check.ok("a Framework", "    kind: Framework" in lines and "        - name: worker" in lines, lines)
    changed = [line[2:].strip() for line in lines if line.startswith("< ")]
    check.ok("only images and commands are others", len(changed) == 7 and all(
        re.match(r'"image": |"command": |uri: |- git |- cd |python ', line) for line in changed), changed)
