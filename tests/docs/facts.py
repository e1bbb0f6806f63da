"""Comparison of the documents with the sources: links, fields of jobs, variables, rows of tables,
plugins, messages, results of benchmarks."""
import glob
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYERS = ("base", "jobs", "k8s", "machine", "runtime-assets", "schema", "server", "translate")
PLUGINS = "extras.com.microsoft.pai.runtimeplugin[]"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def without_blocks(text):
    return re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.M | re.S)


def first_column(text):
    """The texts in backquotes in the first column of tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", without_blocks(text), re.M)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


# ---- links ----
def anchors(text):
    """The anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.*)$", without_blocks(text), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_links_lead_to_files_and_headings(check):
    """Every relative link leads to a file, and to a heading in it."""
    for path in sorted(glob.glob(f"{ROOT}/*.md") + glob.glob(f"{ROOT}/docs/*.md")):
        name = os.path.relpath(path, ROOT)
        bad = []
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", without_blocks(read(path)))):
            file, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(there) or anchor and anchor not in anchors(read(there)):
                bad.append(target)
        check.ok(name, not bad, f"no such file or heading: {' '.join(bad)}")


# ---- fields and variables of JOBS.md ----
def fields_of(schema, node, path):
    """{path: whether it has no fields of its own}; `[]` is an item, ROLE, LABEL and NAME are any name."""
    while "$ref" in node:
        node = schema["definitions"][node["$ref"].rpartition("/")[2]]
    found = {}
    parts = [(f"{path}.{name}" if path else name, sub) for name, sub in node.get("properties", {}).items()
             if isinstance(sub, dict)]
    any_name = {"ports": "LABEL", "env": "NAME"}.get(path.split(".")[-1], "ROLE")
    parts += [(f"{path}.{any_name}", sub) for sub in node.get("patternProperties", {}).values()]
    parts += [(f"{path}[]", node["items"])] if "items" in node else []
    for name, sub in parts:
        below = fields_of(schema, sub, name)
        found.update({name: not below} | below)
    for sub in node.get("oneOf", []) + [part.get("then", {}) for part in node.get("allOf", [])]:
        found.update(fields_of(schema, sub, path))
    return {p: all(not q.startswith((f"{p}.", f"{p}[")) for q in found) for p in found}


def test_fields_of_jobs_are_documented(check):
    """JOBS.md has a row and an example of every field of v2 jobs, and no others."""
    schema = json.loads(read("schema/pai-v2.schema.json"))
    fields = fields_of(schema, schema, "")
    leaves = {path.removesuffix("[]") for path, leaf in fields.items() if leaf}
    text = read("docs/JOBS.md").partition("## Fields")[2].partition("## Commands")[0]
    keys = set(re.findall(r"(?:^|[ {,])([\w.]+):", "\n".join(re.findall(r"```yaml\n(.*?)```", text, re.S)), re.M))
    listed = set()
    for title, section in re.findall(r"^### (.*)\n((?:(?!### ).*\n)*)", text, re.M):
        named = re.search(r"`(.*)`", title)
        prefix = PLUGINS if title == "Plugins" else named[1] if named else ""
        listed.update(f"{prefix}.{name}".lstrip(".") for name in first_column(section))
    check.equal("fields without a row", sorted(leaves - listed), [])
    check.equal("rows without a field", sorted(listed - set(fields)), [])
    check.equal("fields without an example",
                [p for p in sorted(leaves) if "microsoft" not in p and p.rpartition(".")[2] not in keys | {"LABEL", "NAME"}], [])
    unused = " ".join(re.findall(r"^\|.*\| (?:not interpreted|no effect).*$", text, re.M))
    names = {path.rpartition(".")[2] for path in leaves}
    check.equal("fields that no code reads", sorted(names - set(literals()) - set(re.findall(r"\w+", unused)) - {"LABEL", "NAME"}), [])


def test_variables_of_jobs_are_documented(check):
    """JOBS.md has the PAI variables of TRANSLATION.md, except those for v1 jobs or the init container alone."""
    rows = re.findall(r"^\| `(PAI_[^`]+)` \|.*\| (.*) \| (.*) \|$", read("docs/TRANSLATION.md"), re.M)
    wanted = {name for name, where, meaning in rows if where != "init" and not meaning.startswith("v1:")}
    empty = {"PAI_DEFAULT_FS_URI", "PAI_DATA_DIR", "PAI_OUTPUT_DIR"}
    listed = {name for name in first_column(read("docs/JOBS.md")) if name.startswith("PAI_")}
    check.equal("variables", sorted(listed ^ (wanted | empty)), [])


def test_variables_of_templates_are_used(check):
    """A template has each variable of TRANSLATION.md, unless its row says that no shipped one has."""
    rows = re.findall(r"^\| `([a-z]+\.\w+)` \| ((?:text|number|bool|list).*)$", read("docs/TRANSLATION.md"), re.M)
    check.ok("there are variables", len(rows) > 50, str(len(rows)))
    templates = "".join(read(path) for path in glob.glob(f"{ROOT}/translate/templates/**/*.yaml", recursive=True))
    check.equal("variables that no template has", [name for name, text in rows if "No shipped template" not in text
                and not re.search(rf"\$\{{\*?{name}\}}", templates)], [])


# ---- tables ----
# Header and struct, sources of the table, expression for the members in rows, members without a row.
ROWS_OF = [
    ("server/config/options.h", "options", ["server/config/options.c", "server/config/limits.c"], r"\b[A-Z]+\((\w+)",
     {"files", "n_files", "command", "test_limits", "help", "help_all", "arena"}),
    ("server/jobs/jobs_internal.h", "job_query", ["server/jobs/job_list.c"], r"\bFROM\(\w+, (\w+)\)", {"v1", "descending"}),
    ("server/state/counts.h", "loop_counts", ["server/serve/metrics.c"], r"(\w+)", set()),
    ("server/state/counts.h", "webhook_counts", ["server/serve/metrics.c"], r"(\w+)", set()),
]


def test_members_of_structs_have_rows(check):
    """A row fills, or shows, each member of the structs that belong to tables."""
    for header, name, sources, row, others in ROWS_OF:
        body = re.search(rf"^struct {name} \{{\n(.*?)^\}};", read(header), re.S | re.M)[1]
        members = re.findall(r"(\w+)(?:\[[^]]*\])*[,;]", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
        check.ok(f"{name}: has members", len(members) > 2, members)
        rows = set(re.findall(row, "".join(map(read, sources))))
        check.equal(f"{name}: members without a row", sorted(set(members) - rows - others), [])


def test_fixed_limits_are_documented(check):
    """OPTIONS.md has the fixed limits with their values, in the order of the table."""
    rows = re.findall(r'^\t\{ "([\w-]+)", (\w+)\(\w+, (.*)\) \},$', read("server/config/limits.c"), re.M)
    constants = dict(re.findall(r'^#define (\w+) +"(.*)"$', "".join(map(read, glob.glob(f"{ROOT}/translate/*/*.h"))), re.M))
    wanted = []
    for name, kind, value in rows:
        text = re.sub(r"^(?:(\d+) \* )?([KMG])IB$", lambda m: f"{m[1] or 1}{m[2]}iB", constants.get(value, value.strip('"')))
        size = re.fullmatch(r"(\d+)KiB", text)
        wanted.append((name, text if not size or int(size[1]) % 1024 else f"{int(size[1]) // 1024}MiB",
                       " seconds" if kind == "SECONDS" else ""))
    table = read("docs/OPTIONS.md").partition("## Fixed limits")[2]
    check.ok("there are limits", len(rows) > 50, rows)
    check.equal("rows", re.findall(r"^\| `([\w-]+)` \| `([^`]*)`( seconds)? \| .+ \| .+ \|$", table, re.M), wanted)


def test_options_name_commands_that_exist(check):
    """The column of commands in OPTIONS.md has words of the table of commands only, and all that have options."""
    commands = {name.lower() for name in re.findall(r'^\t\{ "[\w-]+", \w+, .*?FOR_(\w+),', read("server/cli/commands.c"), re.M)}
    rows = re.findall(r"^\| `--[\w-]+` \| [^|]*\| [^|]*\| [^|]*\| ([^|]*) \|", read("docs/OPTIONS.md"), re.M)
    check.equal("commands", {name for row in rows for name in row.split(", ")}, commands)


def test_parameters_of_requests_are_documented(check):
    """openapi.c names each table of parameters, for /openapi.json and ROUTES.md."""
    sources = "".join(read(path) for path in glob.glob(f"{ROOT}/server/*/*.c"))
    tables = re.findall(r"^const struct parameter (\w+)\[", sources, re.M)
    check.ok("there are tables", len(tables) > 5, tables)
    check.equal("tables that openapi.c does not name", sorted(set(tables) - set(re.findall(r"\w+", read("server/serve/openapi.c")))), [])


# ---- the controller ----
def test_events_and_alerts_of_the_controller_are_documented(check):
    """CONTROLLER.md has the reasons of all Events, and the alerts, in tables."""
    text = read("docs/CONTROLLER.md")
    sources = "".join(read(os.path.relpath(path, ROOT)) for path in glob.glob(f"{ROOT}/k8s/controller/rules/*.c"))
    told = set(re.findall(r'"([A-Z]\w+)"', "".join(re.findall(r"\b(?:job|create)_tell\((.*?)\);", sources, re.S))))
    check.equal("reasons", set(re.findall(r"^\| ([A-Z][a-z]+[A-Z]?[a-z]*) \|", text.partition("### Events")[2].partition("\n## ")[0], re.M)), told)
    alerts = set(re.findall(r"alert: (RestLitController\w+)", read("k8s/deploy/monitoring/rules.yaml")))
    check.equal("alerts", set(re.findall(r"^\| (RestLitController\w+) \|", text, re.M)), alerts)
    check.ok("there are some", len(told) > 3 and len(alerts) > 3, (told, alerts))


# ---- plugins ----
def test_plugins_of_the_runtime_are_documented(check):
    """RUNTIME-PLUGINS.md and JOBS.md have the plugins of base/pod/plugin.h."""
    names = re.findall(r'ROW\(PLUGIN_\w+, "(\w+)"', read("base/pod/plugin.h"))
    check.ok("there are plugins", len(names) > 4, str(names))
    check.equal("without a row in RUNTIME-PLUGINS.md", [n for n in names if n not in first_column(read("docs/RUNTIME-PLUGINS.md"))], [])
    row = re.search(r"^\| `plugin` \| required \| (.*) \|$", read("docs/JOBS.md"), re.M)[1]
    check.equal("not in JOBS.md", sorted(set(names) - set(re.findall(r"`(\w+)`", row))), [])


# ---- dialects ----
def test_dialects_have_a_section(check):
    """DIALECTS.md has a row for each dialect, with the texts by which it is recognised, and a section
    for each that a server takes only if it is named."""
    text = read("docs/DIALECTS.md")
    titles = " ".join(re.findall(r"^## (.*)$", text, re.M)).lower()
    names = re.findall(r"^\| (\w+) \| `kind`", text, re.M)
    check.ok("there are dialects", len(names) > 1, names)
    table = read("translate/dialects/dialect.c").partition("DIALECTS[] = {")[2].partition("\n};")[0]
    for row in table.split("\t},\n")[:-1]:
        words = re.findall(r'"([^"]+)"', "".join(re.findall(r"\.(?:name|key|kinds|versions) =[^;]*?,\n(?=\t    \.)", row)))
        shown = re.search(rf"^\| {words[0]} \| (.*) \| `rest-lit schema {words[0]}` \|$", text, re.M)
        missing = [word for word in words[1:] if not shown or word not in re.findall(r"[\w./]+\w", shown[1])]
        check.equal(f"{words[0]}: not in its row", missing, [])
    check.equal("without a section", [name for name in names if name not in titles], [])


# ---- messages of TROUBLESHOOTING.md ----
def literals():
    """The texts of the C sources, adjacent ones joined, and of the table of exit codes."""
    text = "\n".join(read(path) for layer in LAYERS for path in glob.glob(f"{ROOT}/{layer}/**/*.c", recursive=True))
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return [t.replace('\\"', '"') for t in re.findall(r'"((?:[^"\\\n]|\\.)+)"', joined)] + \
        read("runtime-assets/k8s-job-exit-spec.yaml").split("\n")


def test_messages_of_the_documents_exist(check):
    """Each message in the first columns of TROUBLESHOOTING.md is in the program."""
    texts = literals()
    for message in first_column(read("docs/TROUBLESHOOTING.md")):
        pattern = re.compile(".*".join(map(re.escape, message.split("..."))))
        check.ok(message, any(pattern.search(t) for t in texts), "is not in the sources")


# ---- files and functions ----
FILES_MOST = 3  # files that an answer of TOUR.md names


def text_blocks(text):
    return re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S)


def is_defined(name, path):
    """The file defines a function, table or struct of this name; a file that is not C has the word."""
    if not os.path.isfile(os.path.join(ROOT, path)):
        return False
    line = rf"^[a-z}}].*\b{name}(?:[\[(]| \{{)(?!.*;$)" if path.endswith((".c", ".h")) else rf"\b{name}\b"
    return bool(re.search(line, read(path), re.M))


def test_files_of_the_documents_exist(check):
    """Each file of the sources that a document names exists."""
    names = {os.path.basename(path) for top in (*LAYERS, "tests") for path in glob.glob(f"{ROOT}/{top}/**", recursive=True)}
    path_of = re.compile(rf"(?<![\w/.~-])(?:{'|'.join(LAYERS)}|tests)/[\w./-]*\.(?:[chs]|js|json|md|py|sh|yaml)\b")
    for path in sorted(glob.glob(f"{ROOT}/*.md") + glob.glob(f"{ROOT}/docs/*.md")):
        name, text = os.path.relpath(path, ROOT), read(path)
        bad = [file for file in path_of.findall(text) if not os.path.exists(os.path.join(ROOT, file))]
        if name in ("docs/TOUR.md", "CONTRIBUTING.md"):
            bad += [file for file in re.findall(r"[\w-]+\.[ch]\b", text) if file not in names | {"x_internal.h"}]
        # A recipe adds a dialect of this name.
        check.equal(name, [file for file in bad if "greeting" not in file], [])


def test_image_is_built_from_all_layers(check):
    sent = read(f"{ROOT}/.dockerignore").split("\n")
    for layer in LAYERS:
        check.ok(f".dockerignore: {layer}", f"!{layer}" in sent, sent)


def test_tour_has_the_folders_in_their_order(check):
    """The map of TOUR.md has the folders of tests/tools/folders in their order; its files are in them."""
    rows = [line.split() for line in text_blocks(read("docs/TOUR.md"))[0].split("\n") if line]
    folders = re.findall(r"^ +([a-z]\S+)$", read("tests/tools/folders"), re.M)
    check.equal("folders", [row[0] for row in rows], folders)
    for folder, *words in rows:
        files = [word for word in words if re.fullmatch(r"\w+\.(?:[ch]|js)", word)]
        check.ok(folder, files and all(os.path.isfile(f"{ROOT}/{folder}/{file}") for file in files), f"has no {files}")


def test_functions_of_the_tour_exist(check):
    """Each answer of TOUR.md names at most three files, which define what it says."""
    text = read("docs/TOUR.md")
    for block in text_blocks(text)[1:]:
        rows = [line.split()[:2] for line in block.split("\n") if line]
        check.ok(rows[0][0], len({path for _, path in rows}) <= FILES_MOST, f"names more than {FILES_MOST} files")
        check.equal(f"{rows[0][0]}: definitions", [row for row in rows if not is_defined(*row)], [])
    sources = "\n".join(read(path) for layer in LAYERS for path in glob.glob(f"{ROOT}/{layer}/**/*.[ch]", recursive=True))
    named = re.findall(r"`(?:struct )?(\w*_\w+|[A-Z]{4,})`", without_blocks(text))
    words = set(re.findall(r"\w+", sources))
    check.equal("names", [name for name in named if name not in words], [])


# ---- results of BENCH.md ----
def test_results_are_those_of_the_log(check):
    """The results of BENCH.md are those of the tables in BENCH-LOG.md."""
    done = subprocess.run([os.path.join(ROOT, "tests/bench/report.py"), "--check"], capture_output=True, text=True, check=False)
    check.ok("results", done.returncode == 0, done.stderr)


TESTS = [test_links_lead_to_files_and_headings, test_fields_of_jobs_are_documented,
         test_variables_of_jobs_are_documented, test_variables_of_templates_are_used,
         test_members_of_structs_have_rows, test_fixed_limits_are_documented, test_options_name_commands_that_exist,
         test_parameters_of_requests_are_documented,
         test_events_and_alerts_of_the_controller_are_documented, test_plugins_of_the_runtime_are_documented,
         test_dialects_have_a_section,
         test_messages_of_the_documents_exist, test_files_of_the_documents_exist,
         test_image_is_built_from_all_layers, test_tour_has_the_folders_in_their_order, test_functions_of_the_tour_exist,
         test_results_are_those_of_the_log]
