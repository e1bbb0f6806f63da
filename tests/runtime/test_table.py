"""The table of variables in docs/TRANSLATION.md matches the programs: it has all variables that
pai-runtime writes for recorded jobs, and pai-runtime writes all variables that it lists."""
import json
import os
import re
import tempfile

from checks import Root, TOP, check, equal, finish, tests
from distributed_kit import JOBS, Job, loopback
from pods import Pod

DATA = os.path.join(TOP, "tests", "data", "runtime")
# A number is no name of a role here: those are the rows with $number.
PARTS = {"$role": "(?!\\d+_)[A-Za-z0-9_]+", "$index": "\\d+", "$label": "[A-Za-z0-9_]+", "$number": "\\d+"}
# The variables that `run` adds, if it knows their values.
OF_RUN = {"PAI_WORK_DIR", "RUNTIME_LOG_PIPE", "PAI_SHELL"}


def rows(page, maker):
    """The names of one part of the table."""
    part = page.split(f"\n### By {maker}", 1)[1].split("\n### ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", part, re.M)


def pattern(name):
    return re.compile("".join(PARTS.get(piece, re.escape(piece)) for piece in re.split(r"(\$[a-z]+)", name)))


def written(env, framework):
    """Names of the variables that init writes."""
    with Root(**env) as root:
        done = root.run("init", "--framework", framework, "--steps", "config,environment")
        text = root.read("/usr/local/pai/runtime.d/runtime_env") or b""
        if done.returncode:
            return []
        return [v.split("=", 1)[0] for v in text.decode().split("\0") if v]


OWN = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "PAI_CURRENT_TASK_ROLE_NAME": "worker"}


def first_generation(folder):
    """Jobs that were not recorded: with a list of roles, and with the two spellings of servers."""
    with open(os.path.join(DATA, "frameworks", "06-AttemptRunning.json"), encoding="utf-8") as f:
        framework = json.load(f)
    roles = [{"name": role["name"], "taskNumber": role["taskNumber"], "command": "true"}
             for role in framework["spec"]["taskRoles"]]
    framework["metadata"].setdefault("annotations", {})["config"] = json.dumps(
        {"jobName": "old", "image": "ubuntu", "taskRoles": roles})
    path = os.path.join(folder, "framework.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(framework, f)
    for spelling in ("INSTANCE", "TASK_COUNT"):
        yield {**OWN, f"PAI_MIN_FAILED_{spelling}_worker": "1", f"PAI_MIN_SUCCEEDED_{spelling}_worker": "2"}, path


def recorded():
    """(environment, Framework) of all that is recorded."""
    init = os.path.join(DATA, "init")
    for case in sorted(os.listdir(init)):
        folder = os.path.join(init, case, "in")
        if os.path.isdir(folder):
            with open(os.path.join(folder, "env.json"), encoding="utf-8") as f:
                yield json.load(f), os.path.join(folder, "framework.json")
    frameworks = os.path.join(DATA, "frameworks")
    for name in sorted(os.listdir(frameworks)):
        if name.endswith(".json"):
            yield OWN, os.path.join(frameworks, name)


def test_variables_of_init_are_documented(page):
    table = {name: pattern(name) for name in rows(page, "pai-runtime")}
    seen, unknown = set(), set()
    with tempfile.TemporaryDirectory() as folder:
        names = {v for job in (*recorded(), *first_generation(folder)) for v in written(*job)}
    for job in sorted(os.listdir(JOBS)):
        with Job(job.removesuffix(".yaml"), loopback) as made:
            names |= {v for pod in made.pods for v in pod.set}
    for variable in names:
        found = {name for name, text in table.items() if text.fullmatch(variable)}
        seen |= found
        unknown |= set() if found else {variable}
    equal("what init writes stands in the table", sorted(unknown), [])
    equal("what the table says is written", sorted(set(table) - seen - OF_RUN), [])


def test_variables_of_run_are_documented(page):
    table = set(rows(page, "pai-runtime"))
    with Root() as root:
        root.write("/usr/local/pai/runtime.d/user.sh", "#!/bin/sh\nenv\n", 0o755)
        done = root.run("run")
        before = set(root.env) | {"PWD", "SHLVL", "_", "OLDPWD"}
    names = {line.split("=", 1)[0] for line in done.stdout.decode().splitlines() if "=" in line}
    equal("what run adds stands in the table", sorted(names - before), sorted(OF_RUN))
    check("and is of pai-runtime", OF_RUN <= table, sorted(OF_RUN - table))


def test_variables_of_others_are_documented(page):
    """The table has the variables that the tests set in the place of FrameworkController."""
    framework = {"metadata": {"name": "f", "namespace": "default"}}
    with Pod(framework, {"name": "r", "task": {"pod": {"spec": {}}}}, 0, "127.0.0.1", "127.0.0.1") as pod:
        names = {name for name in pod.env if name.startswith("FC_")}
    equal("variables of FrameworkController", sorted(rows(page, "FrameworkController")), sorted(names))
    check("the API server is found by what Kubernetes says", {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} <=
          set(rows(page, "Kubernetes")))


def test_sources_of_variables_are_explained(page):
    """Differences from OpenPAI are explained."""
    with open(os.path.join(TOP, "docs/DEVIATIONS.md"), encoding="utf-8") as f:
        explained = set(re.findall(r"^(?:###|\|) `([^`]+)`", f.read(), re.M))
    sources = re.findall(r"^\| `[^`]+` \| [^|]+ \| ((?:OpenPAI|v1|ours)[^|]*) \|", page, re.M)
    named = {name for source in sources for name in re.findall(r"`([^`]+)`", source)}
    check("variables have sources", len(sources) > 60 and len(named) > 10, (len(sources), named))
    equal("all are entries of DEVIATIONS.md", sorted(named - explained), [])


def main():
    with open(os.path.join(TOP, "docs/TRANSLATION.md"), encoding="utf-8") as f:
        page = f.read()
    tests(test_variables_of_init_are_documented, test_variables_of_run_are_documented,
          test_variables_of_others_are_documented, test_sources_of_variables_are_explained, args=(page,))


main()
finish()
