"""docs/TEMPLATES.md: its files produce its differences, and errors have its messages; other files
in a directory of templates."""
import difflib
import json
import os
import re
import tempfile

from harness import ROOT, run
from tokens import write_file

PAGE = os.path.join(ROOT, "docs/TEMPLATES.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|^## ([^\n]*)$", re.M | re.S)
NAMED = re.compile(r"file\n?\s*`([\w.-]+)`")


def changes():
    """The examples of the page: title, files by name, command, lines of the difference."""
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    title, files, command, found, end = "", {}, None, [], 0
    for match in BLOCK.finditer(page):
        kind, text, heading = match.groups()
        if heading:
            title, files, command = heading, {}, None
        elif kind == "sh":
            command = text.split() if "--templates DIR " in text else command
        elif kind == "diff":
            found.append((title, files, command, text.splitlines()))
        else:
            files[NAMED.findall(page[end:match.start()])[-1]] = text
        end = match.end()
    return found


def translated(arguments, directory, files, with_templates):
    """The output of the command, with the directory instead of DIR."""
    replace = {"DIR": os.path.join(directory, "templates")}
    replace.update({name: os.path.join(directory, name) for name in files})
    words = [replace.get(word, word) for word in arguments[1:]]
    if not with_templates:
        for option in ("--templates", "--device"):
            if option in words:
                at = words.index(option)
                del words[at:at + 2]
    return run(*words)


def lay_out(directory, files):
    os.mkdir(os.path.join(directory, "templates"))
    for name, text in files.items():
        folder = os.path.join(directory, "templates") if name.endswith(".yaml") else directory
        write_file(folder, name, text)


def test_template_changes_of_the_documents_work(check):
    found = changes()
    check.equal("changes on the page", [title for title, *_ in found],
                ["A toleration", "Nodes by gpuType", "Another kind of device"])
    for title, files, command, wanted in found:
        with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
            lay_out(directory, files)
            before = translated(command, directory, files, False)
            after = translated(command, directory, files, True)
            check.equal(f"{title}: taken", (before.returncode, after.returncode), (0, 0))
            check.ok(f"{title}: nothing to complain of", after.stderr == b"", after.stderr)
            lines = [x.stdout.decode().splitlines() for x in (before, after)]
            got = [d for d in difflib.unified_diff(*lines, n=0, lineterm="")
                   if not d.startswith(("---", "+++", "@@"))]
            check.equal(f"{title}: the difference", got, wanted)


def try_files(files):
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
        for name, text in files.items():
            write_file(directory, name, text)
        return run("translate", "--user", "alice", "--templates", directory,
                   "examples/hello-world.yaml")


SITE = "site-taskrole.yaml"
POD = "task:\n  pod:\n    spec:\n"
MISTAKES = [
    ({"taskrol.yaml": "{}"}, "taskrol.yaml: there is none of this name, did you mean taskrole.yaml?"),
    ({"taskrole.yml": "{}"}, "did you mean taskrole.yaml?"),
    ({SITE: POD + "      nodeSelector:\n        x: ${job.gpu}\n"}, "line 5: unknown variable: `job.gpu`"),
    ({SITE: "task: {pod: {metadata: {labels: {a: '1', b: 2}}}}"}, "line 1: must be text here"),
    ({SITE: "task:\n  pod: {spec: {containers: [\n    {name: main}]}}\n"},
     f"over taskrole.yaml: template {SITE}, line 3: there is no such container"),
    ({SITE: POD + "      dnsPolicy: Default\n"},
     f"over taskrole.yaml, host-network.yaml: template {SITE}, line 4: two overlays set this"),
    ({SITE: "task:\n  pod:\n    spec: []\n"}, f"template {SITE}, line 3: a list, where there is a mapping"),
    ({SITE: POD + "      priority: null\n"}, f"template {SITE}, line 4: null deletes nothing"),
    ({SITE: POD + "      volumes:\n        - name: scratch\n          emptyDir:\n"},
     f"template {SITE}, line 6: null only deletes, and all of this is new; an empty mapping is {{}}"),
    ({SITE: POD + "      tolerations: [{key: gpu, value: true}]\n"}, "line 4: must be text here"),
    # The container exists only if all three are used.
    ({"fuse.yaml": POD + "      initContainers: null\n", "host-network.yaml": POD + "      initContainers: [{name: init, image: x}]\n",
      "infiniband.yaml": POD + "      initContainers: [{name: init, tty: true}]\n"},
     "over taskrole.yaml, fuse.yaml: template infiniband.yaml, line 4: there is no such container"),
    ({SITE: "a: 1\n---\nb: 1\n"}, f"template {SITE}, line 2, column 1: a second document"),
    ({SITE: "task: [\n"}, f"template {SITE}, line 2, column 1: "),
    ({"taskrole.yaml": ""}, "template taskrole.yaml: is empty"),
    ({"framework.yaml": "a: ${role.gpu}\n"}, "line 1: a variable of a task role has no meaning here: `role.gpu`"),
]


def test_template_mistakes_are_located(check):
    for files, said in MISTAKES:
        name = next(iter(files))
        done = try_files(files)
        check.equal(f"{name}: {said}: exit status", done.returncode, 2)
        check.ok(f"{name}: {said}", said in done.stderr.decode(), done.stderr)
        check.equal(f"{name}: {said}: one line", done.stderr.count(b"\n"), 1)


def test_template_messages_of_the_documents_are_correct(check):
    """The messages of the page are correct."""
    with open(PAGE, encoding="utf-8") as f:
        rows = re.findall(r"^\| `+(.*?)`+ \|", f.read().split("## Mistakes")[1], re.M)
    check.ok("there are rows", len(rows) >= 8, rows)
    words = {re.sub(r"`[^`]*`", "", said) for _, said in MISTAKES}
    for row in rows:
        part = re.sub(r"line \d+", "line N", re.sub(r"`[^`]*`", "", row))
        check.ok(f"row {row}", any(re.sub(r"line \d+", "line N", w).strip() in part for w in words), words)


def test_template_directory_ignores_other_files(check):
    """A mounted ConfigMap, backup files of editors, and entries that are not files."""
    text = POD + "      tolerations:\n        - operator: Exists\n"
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
        data = os.path.join(directory, "..2026_11_21")
        os.mkdir(data)
        write_file(data, SITE, text)
        os.symlink("..2026_11_21", os.path.join(directory, "..data"))
        os.symlink(f"..data/{SITE}", os.path.join(directory, SITE))
        for name in (f".{SITE}.swp", f"{SITE}~", f"#{SITE}#", "README.md", f"{SITE}.orig"):
            write_file(directory, name, "no template")
        done = run("translate", "--user", "alice", "--templates", directory,
                   "examples/hello-world.yaml")
        check.ok("a mounted ConfigMap", done.returncode == 0 and b"tolerations" in done.stdout, done)
    for what, make in (("directory", os.mkdir), ("fifo", os.mkfifo),
                       ("dangling link", lambda path: os.symlink("nowhere", path))):
        with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
            make(os.path.join(directory, SITE))
            done = run("translate", "--user", "alice", "--templates", directory,
                       "examples/hello-world.yaml")
            check.equal(f"{what}: exit status", done.returncode, 2)
            check.ok(f"{what}: is named", SITE in done.stderr.decode(), done.stderr)
    done = run("translate", "--user", "alice", "--templates", "/no/such", "examples/hello-world.yaml")
    check.ok("no directory", done.returncode == 2 and b"/no/such" in done.stderr, done)


def test_template_variable_that_occurs_twice_has_the_last_value(check):
    """The last one wins, also if all are in one ConfigMap.  There a key occurs twice, which JSON,
    and so YAML, permits."""
    job, name = os.path.join(ROOT, "examples", "hello-world.yaml"), "env-job.yaml"
    with open(os.path.join(ROOT, "translate/templates/common", name), encoding="utf-8") as f:
        text = f.read() + "- name: PAI_DEFAULT_FS_URI\n  value: hdfs://ours\n"
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
        write_file(directory, name, text)
        for form in ("json", "yaml"):
            done = run("translate", "--user", "alice", "--templates", directory, "--max-env-inline", "0", "--output", form, job)
            data = json.loads(done.stdout or "{}").get("items", [{}])[0].get("data", {})
            check.equal(f"as {form}", data.get("PAI_DEFAULT_FS_URI"), "hdfs://ours")


def test_template_mistakes_prevent_the_start(check):
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
        write_file(directory, SITE, "task:\n  pod: ${job.nam}\n")
        done = run("serve", "--listen", "127.0.0.1:0", "--no-auth", "--user", "alice", "--local", directory + "/jobs",
                   "--templates", directory)
        check.ok("serve", done.returncode != 0, done)
        check.ok("... says why", f"template {SITE}, line 2: unknown variable: `job.nam`; did you mean "
                 "`job.name`?" in done.stderr.decode(), done.stderr)


def test_templates_page_restores_the_shipped_files(check):
    """The program prints the shipped templates, and they can be restored file by file."""
    done = run("page", "templates")
    parts = re.split(r"^--- # (\w+)/([\w.-]+)\n", done.stdout.decode(), flags=re.M)
    shipped = dict(zip(zip(parts[1::3], parts[2::3]), parts[3::3]))
    for (folder, name), text in shipped.items():
        path = os.path.join(ROOT, "translate/templates", folder, name)
        with open(path, encoding="utf-8") as f:
            check.ok(f"{folder}/{name}", f.read() == text)
    count = sum(len(files) for _, _, files in os.walk(os.path.join(ROOT, "translate/templates")))
    check.equal("all of them", len(shipped), count)
    before = run("translate", "--user", "alice", "examples/tfDemo.json").stdout
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
        for (folder, name), text in shipped.items():
            if folder in ("common", "plain"):
                write_file(directory, name, text)
        after = run("translate", "--user", "alice", "--templates", directory, "examples/tfDemo.json")
        check.ok("put back, nothing changes", after.stdout == before and before, after.stderr)
