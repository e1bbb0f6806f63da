"""submit -- COMMAND: the job file of a command."""
import os
import re
import tempfile

import yaml

from cli import cli
from harness import Server


class Submitter:
    """A server that only keeps jobs, and a directory with the files of a command."""

    def __init__(self, *options):
        self.server = Server("--engine=none", "--local", "jobs", *options)
        self.root = tempfile.TemporaryDirectory(prefix="rest-lit-command.")
        self.cwd = os.path.join(self.root.name, "work")
        os.mkdir(self.cwd)
        with open(os.path.join(self.cwd, "train.py"), "w", encoding="utf-8") as f:
            f.write("print('trained')\n")

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *args):
        self.server.__exit__(*args)
        self.root.cleanup()

    def submit(self, *arguments, cwd=None):
        at = ("--server", f"http://127.0.0.1:{self.server.port}")
        return cli("submit", *at, *arguments, cwd=cwd or self.cwd, environment={"HOME": self.root.name + "/home"})

    def file(self, *arguments):
        """The job file."""
        code, out, err = self.submit("--image", "team/image:1", "--dry-run", "-o", "job", *arguments)
        return yaml.safe_load(out) if code == 0 else err


def test_submit_command_prints_its_job_file(check):
    """Image, resources and name; a job of one task, as people would write it."""
    with Submitter() as s:
        job = s.file("--", "python", "train.py", "--lr", "0.1")
        if not isinstance(job, dict):
            check.ok("the file", False, job)
            return
        check.ok("the name", re.fullmatch(r"train-[0-9a-f]{6}", job["name"]), job)
        role = job["taskRoles"]["main"]
        check.equal("the command", role["commands"], ["exec python train.py --lr 0.1"])
        check.equal("defaults", role["resourcePerInstance"], {"cpu": 4, "memoryMB": 8192, "gpu": 0})
        check.equal("the image", (role["dockerImage"], job["prerequisites"][0]["uri"]), ("image", "team/image:1"))
        check.equal("output is not held back", job["extras"]["env"], {"PYTHONUNBUFFERED": "1"})
        wanted = {("--gpus", "2"): (8, 16384, 2), ("--gpus", "1", "-c", "3", "-m", "1GiB"): (3, 1024, 1)}
        for options, (cpu, memory, gpu) in wanted.items():
            check.equal(f"{options}", s.file(*options, "--", "true")["taskRoles"]["main"]["resourcePerInstance"], {"cpu": cpu, "memoryMB": memory, "gpu": gpu})
        check.equal("--name", s.file("--name", "mine", "--", "true")["name"], "mine")
        code, out, err = s.submit("--dry-run", "-o", "job", "--", "true")
        check.ok("no image", code == 2 and "--image IMAGE" in err and "--default-image" in err and not out, (code, out, err))
        with Submitter("--default-image", "team/default:1") as other:
            code, out, err = other.submit("--dry-run", "-o", "job", "--", "true")
            check.ok("the server's image", code == 0 and 'uri: "team/default:1"' in out, (code, out, err))
        for cwd in (s.root.name, "/"):
            os.makedirs(s.root.name + "/home", exist_ok=True)
            code, out, err = s.submit("--image", "x", "--", "true", cwd=cwd)
            check.ok(f"in {cwd}", code == 2 and "contains your home directory" in err and "--code DIR" in err, (code, err))
        code, out, err = s.submit("--gpus", "1", "job.yaml")
        check.ok("--gpus with a file", code == 2 and "the file says how many: resourcePerInstance of" in err, (code, err))


def test_submit_command_runs_once_or_for_each_value(check):
    """Its job is submitted; --sweep makes names that stay, and values are put into the words."""
    with Submitter() as s:
        code, out, err = s.submit("--image", "x", "--", "true")
        check.ok("submitted", code == 0 and re.fullmatch(r"alice~true-[0-9a-f]{6}\n", out), (code, out, err))
        sweep = ["--image", "x", "--yes", "--sweep", "lr=0.1,0.01", "--", "python", "train.py", "--lr=<% $parameters.lr %>"]
        for turn in ("first", "again"):
            code, out, err = s.submit(*sweep)
            check.equal(turn, (code, out), (0, "alice~train-lr0_1\nalice~train-lr0_01\n"))
        job = s.file("--set", "lr=0.5", "--", "x", "<%$parameters.lr%>")
        check.equal("the parameter", (job["parameters"], job["taskRoles"]["main"]["commands"]), ({"lr": 0.5}, ["exec x '<% $parameters.lr %>'"]))
        for option, says in ((["--set", "lr=\"it's\""], "single quote"), (["--sweep", "lr=\"it's\",b"], "single quote"), (["--set", "no=1"], "does not use no")):
            code, out, err = s.submit("--image", "x", "--yes", *option, "--", "x", *(["<% $parameters.lr %>"] if says[0] == "s" else []))
            check.ok(f"{option}", code == 2 and says in err and not out, (code, out, err))
