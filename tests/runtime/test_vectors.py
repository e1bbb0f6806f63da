"""The files of init for 27 jobs, compared with those of OpenPAI's runtime or, where it was wrong,
with the expected ones (../data/runtime/init/README.md); and for Frameworks in every state."""
import json
import os
import re
import shutil
import socket
import subprocess

from checks import PATIENCE, TOP, Root, check, equal, finish, tests, without_root

DATA = os.path.join(TOP, "tests", "data", "runtime", "init")
FRAMEWORKS = os.path.join(TOP, "tests", "data", "runtime", "frameworks")
PAI = "/usr/local/pai"
PORT_CONFLICT = 253
STEPS = "install,exitspec,config,environment,ports,plugins,command"
MOUNTS = {
    "secrets.yaml": PAI + "/secrets/secrets.yaml",
    "userExtensionSecrets.yaml": PAI + "/user-extension-secrets/userExtensionSecrets.yaml",
    "token": PAI + "/token-secrets/token",
}
# These files are not among the recorded ones.
OURS = ["runtime", "runtime.d/runtime_env", "runtime.d/runtime-exit-spec.yaml", "runtime.d/user.lines"]
# Shells of images that may source runtime_env.sh.
SHELLS = [["bash"], ["bash", "--posix"], ["dash"], ["busybox", "sh"]]


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def wanted(case):
    """{path below /usr/local/pai: expected content}."""
    want = {}
    for kind in ("out", "expected"):
        folder = os.path.join(DATA, case, kind)
        for name in files_below(folder):
            if name != "exit_code":
                path = name if name.startswith("ssh-secret/") else "runtime.d/" + name
                want[path] = read(os.path.join(folder, name))
    return want


def written(root):
    """The same of what is there, but for mounts and what was never recorded."""
    mounts = [os.path.relpath(path, PAI) for path in MOUNTS.values()]
    return {name: read(root.at(PAI + "/" + name)) for name in files_below(root.at(PAI))
            if name not in OURS and name not in mounts and not name.startswith("logs/")}


HEADER = ["set -o errexit", "set -o nounset", "set -o pipefail"]


def canonical(name, data, root):
    """A script without its comments, the blank lines of its header, and intended differences."""
    text = without_root(data.decode("utf-8", "surrogateescape"), root)
    if not name.endswith(".sh") or name.endswith("runtime_env.sh"):
        return text
    text = text.replace(" --root ''", "")  # in a pod it is /, and left out
    if text.startswith(HEADER[0] + ";"):  # pai-runtime writes it on the first line
        text = "\n".join(HEADER) + "\n" + text.split(" ERR;; esac; ", 1)[1].removeprefix("\n")
    text = text.replace('"${PAI_SHELL:-/bin/bash}"', "/bin/bash")
    text = re.sub(r" \|\| printf 'plugin \d+ failed with %d, ignored\\n' \"\$\?\" >&2$", "", text, flags=re.M)
    lines = [line for line in text.splitlines(True) if not line.startswith("#")]
    if os.path.basename(name).startswith("plugin_"):
        return "".join(lines)
    end = lines.index(HEADER[2] + "\n") + 1
    header = [line.rstrip() for line in lines[:end] if line.strip()]
    body = "".join(lines[end:])
    body = body[1:] if body.startswith("\n") else body
    # The recorded ones have a final newline that the command never had.
    return f"{header}\n" + (body.rstrip("\n") if name.endswith("user.sh") else body)


def prepared(case):
    root = Root(**json.loads(read(os.path.join(DATA, case, "in", "env.json"))))
    for name, path in MOUNTS.items():
        data = read(os.path.join(DATA, case, "in", name))
        if data is not None:
            root.write(path, data)
    root.write("/usr/local/pai-config/runtime-exit-spec.yaml", "[]\n")
    return root


def difference(got, want):
    got, want = got.splitlines(True), want.splitlines(True)
    for i in range(max(len(got), len(want))):
        g = got[i] if i < len(got) else None
        w = want[i] if i < len(want) else None
        if g != w:
            return f"line {i + 1}: got {g!r}, want {w!r}"
    return ""


def shell_variables(shell, script):
    """The environment of a program started by a shell that has sourced the script."""
    done = subprocess.run([*shell, "-c", 'set -eu; . "$0"; exec env -0', script], env={"PATH": os.environ["PATH"]},
                          capture_output=True, timeout=PATIENCE)
    own = {b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD", b"POSIXLY_CORRECT"}
    return {v for v in done.stdout.split(b"\0") if v and v.split(b"=", 1)[0] not in own}


def environment(case, root):
    nul = root.read(PAI + "/runtime.d/runtime_env")
    script = root.at(PAI + "/runtime.d/runtime_env.sh")
    check(f"{case}: runtime_env ends in a NUL", nul.endswith(b"\0"))
    variables = nul[:-1].split(b"\0")
    names = [v.split(b"=", 1)[0] for v in variables]
    equal(f"{case}: no variable twice", len(set(names)), len(names))
    in_script = re.findall(rb"^export ([A-Za-z_][A-Za-z0-9_]*)=", read(script), re.M)
    equal(f"{case}: both files have the same order", in_script, names)
    for shell in SHELLS:
        if shutil.which(shell[0]):
            seen = shell_variables(shell, script)
            check(f"{case}: {' '.join(shell)} sees the same variables", seen == set(variables),
                  sorted(seen ^ set(variables))[:3])


def init(case, root):
    framework = os.path.join(DATA, case, "in", "framework.json")
    done = root.run("init", "--framework", framework, "--steps", STEPS)
    if done.returncode == PORT_CONFLICT:  # the ports are given, and some program here has one
        done = root.run("init", "--framework", framework, "--steps", STEPS.replace("ports,", ""))
    return done


def test_recorded_cases_have_their_results(case):
    code = read(os.path.join(DATA, case, "expected", "exit_code"))
    with prepared(case) as root:
        done = init(case, root)
        if not equal(f"{case}: exit code", done.returncode, int(code or 0)):
            print(done.stderr.decode(errors="replace"))
        environment(case, root)
        got, want = written(root), wanted(case)
        if done.returncode:  # what a failed step would have written is not there
            want = {name: data for name, data in want.items() if name in got}
        equal(f"{case}: files", sorted(got), sorted(want))
        for name in sorted(set(got) & set(want)):
            differs = difference(canonical(name, got[name], root), canonical(name, want[name], root))
            check(f"{case}: {name}", not differs, differs)
        check(f"{case}: nothing is left behind", not any(".tmp" in name for name in got), sorted(got))


def test_port_in_use_fails_the_task():
    """The http port of a task is in use by a local server."""
    case = "09_legacy_sequential_ports"
    with open(os.path.join(DATA, case, "in", "framework.json")) as f:
        framework = json.load(f)
    with socket.create_server(("127.0.0.1", 0)) as server, prepared(case) as root:
        port = server.getsockname()[1]
        index = int(root.env["FC_TASK_INDEX"])
        for role in framework["spec"]["taskRoles"]:
            role["task"]["pod"]["metadata"]["annotations"]["rest-server/port-scheduling-spec"] = json.dumps(
                {"http": {"start": port - index, "count": 1}})
        root.write("/framework.json", json.dumps(framework))
        root.write("/dev/termination-log", "")
        done = root.run("init", "--framework", root.at("/framework.json"), "--steps", STEPS)
        equal("a port that is taken: exit code", done.returncode, PORT_CONFLICT)
        cause = root.read("/dev/termination-log").decode()
        check("the cause names port, label and protocol", f"port {port} (http) is taken, TCP" in cause, cause)
        check("plugins are not looked at", not root.exists(PAI + "/runtime.d/precommands.sh"))


def test_frameworks_in_every_state_are_accepted():
    """Frameworks in every state result in an environment."""
    for name in sorted(os.listdir(FRAMEWORKS)):
        if not name.endswith(".json"):
            continue
        with Root(FC_TASKROLE_NAME="worker", FC_TASK_INDEX="1", PAI_CURRENT_TASK_ROLE_NAME="worker") as root:
            done = root.run("init", "--framework", os.path.join(FRAMEWORKS, name), "--steps", "config,environment")
            if equal(f"{name}: exit code", done.returncode, 0):
                environment(name, root)
            else:
                print(done.stderr.decode(errors="replace"))


tests(test_frameworks_in_every_state_are_accepted, test_port_in_use_fails_the_task)
for case in sorted(os.listdir(DATA)):
    if os.path.isdir(os.path.join(DATA, case)):
        tests(test_recorded_cases_have_their_results, args=(case,))
finish()
