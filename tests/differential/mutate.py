"""Mutants of jobs, reproducible by their number on every machine and with every Python version.

Mutant i results from one to three changes of document i mod n.  Most changes are in the text of a
YAML file; a JSON file is changed as a tree and written again."""
import json
import re

# The 240 documents of the form `k: SCALAR`, with known scalar rules.
with open("tests/data/yaml/scalars.json", encoding="utf-8") as f:
    DOCUMENTS = [case["in"] for case in json.load(f)]
SCALARS = [text[3:-1] for text in DOCUMENTS if text.startswith("k: ") and text.index("\n") == len(text) - 1]
SCALARS += ["-2", "2.0", "1e400", "2147483647", "2147483648", "''", "[]", "{}", "[1]", "[[]]", "{a: 1}", "[{}]",
            "? a", ": a", "- a", "& a", "*a", "&a", "&a b", "*nope", "a: b", "a #b", "!x y", "|", ">-", "\"\\/\"",
            "caf\u00e9", "\u00a0", "\"<% $parameters.x %>\"", "<%", "<%#a%>", "{{FC_POD_NAME}}", "$(id) $$",
            "toString", "__proto__", "worker", "Worker", "a/b", "../x", "/", "/mnt/x", "/proc", "/x:y", "x:y:z",
            "ubuntu:22.04", "\"******\"", "alice~x", "100000000000000000000"]
KEYS = """protocolVersion name type version contributor description prerequisites parameters secrets jobRetryCount
taskRoles deployments defaults extras plugin require uri auth username password registryuri instances completion
minFailedInstances minSucceededInstances taskRetryCount dockerImage data output script extraContainerOptions shmMB
infiniband resourcePerInstance cpu memoryMB gpu ports ssh http commands preCommands postCommands deployment
virtualCluster storages mountPath share readOnly gangAllocation hivedScheduler jobPriorityClass skuType failurePolicy
additionalProperties submitFrom com.microsoft.pai.runtimeplugin jobStatusChangeNotification kind jobName x X 1 0x10
1.0 true null ~ "a" 'a' __proto__ toString << a-b a.b a/b _ ___ \u00e9 ? - [a] {a} *x Worker WORKER worker""".split()
KEYS += ["!!str x", "&k x", "a b", "", "1:30", "2001-12-14"]
TREES = [None, True, False, 0, -1, -2, -3, 1, 2, "2", 1.5, 2.0, 1e3, 2**31 - 1, 2**31, 2**53 + 1, 10**20, 10**400, "", "a", "a b",
         "\n", "\0", "\x1b[0m", "\ud800", "\U0001f600", "<% $parameters.x %>", "<% $secrets.x %>", "<%", "******", "/", "/mnt/x", "x/../y",
         "toString", "__proto__", [], {}, [1], ["a"], [[]], [{}], {"a": 1}, {"": 1}, {"a": {"b": []}}]
INSERTS = list(":#-{}[],&*!|>'\"%@`?\t\r\n \0\x7f=<~\\") + ["\u00a0", "\u0085", "\ufeff", "\U0001f600", "\u00e9", "\n---\n", "\n...\n",
                                                     ": ", " #", "- ", "\n\t", "&a ", "*a", "!!str ", "<<: ", "\r\n"]
MEMBER = re.compile(r"^(\s*(?:- +)*)([^\s:#'\"{[&*!-][^:#]*?|\"[^\"]*\"|'[^']*'):(\s+(?=\S)|$)(.*)$", re.ASCII)
ITEM = re.compile(r"^(\s*(?:- +)+)(\S.*)$", re.ASCII)


class Dice:
    """A portable random number generator, Knuth's MMIX."""

    def __init__(self, *seeds):
        self.state = 0
        for seed in seeds:
            self.state = (self.state ^ seed) * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        for _ in range(4):
            self.below(1)

    def below(self, n):
        self.state = self.state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        return (self.state >> 33) % n

    def pick(self, some):
        return some[self.below(len(some))]


# ---- lines ---------------------------------------------------------------------------------

def indent(line):
    return len(line) - len(line.lstrip(" "))


def block(lines, i):
    """The end of the block that begins at line i and includes all lines with more indentation."""
    end = i + 1
    while end < len(lines) and (not lines[end].strip() or indent(lines[end]) > indent(lines[i])):
        end += 1
    return end


def drop_line(d, lines):
    del lines[d.below(len(lines))]


def repeat_line(d, lines):
    i = d.below(len(lines))
    lines.insert(i, lines[i])


def swap_lines(d, lines):
    i, k = d.below(len(lines)), d.below(len(lines))
    lines[i], lines[k] = lines[k], lines[i]


def shift_line(d, lines):
    i = d.below(len(lines))
    lines[i] = d.pick([" " + lines[i], "  " + lines[i], lines[i][1:], lines[i][2:], "\t" + lines[i]])


def shift_block(d, lines):
    i = d.below(len(lines))
    for k in range(i, block(lines, i)):
        lines[k] = "  " + lines[k]


def drop_block(d, lines):
    i = d.below(len(lines))
    del lines[i:block(lines, i)]


def repeat_block(d, lines):
    i = d.below(len(lines))
    end = block(lines, i)
    lines[end:end] = lines[i:end]


def move_block(d, lines):
    i = d.below(len(lines))
    end = block(lines, i)
    moved = lines[i:end]
    del lines[i:end]
    lines.insert(d.below(len(lines) + 1), "\n".join(moved))


def swap_siblings(d, lines):
    i = d.below(len(lines))
    end = block(lines, i)
    if end < len(lines) and indent(lines[end]) == indent(lines[i]):
        last = block(lines, end)
        lines[i:last] = lines[end:last] + lines[i:end]


def graft_block(d, lines):
    """Replace a block by another one, with the indentation of the first."""
    i, k = d.below(len(lines)), d.below(len(lines))
    taken = lines[i:block(lines, i)]
    by = indent(lines[k]) - indent(taken[0])
    lines[k:block(lines, k)] = [" " * by + t if by >= 0 else t[-by:] for t in taken]


def cut_off(d, lines):
    del lines[d.below(len(lines)) + 1:]


# ---- members and scalars -------------------------------------------------------------------

def some_member(d, lines):
    """A random line with a member and a scalar value, as (line number, parts)."""
    i = d.below(len(lines))
    for k in range(i, i + len(lines)):
        m = MEMBER.match(lines[k % len(lines)])
        if m:
            return k % len(lines), list(m.groups())
    return None, None


def with_member(change):
    def apply(d, lines):
        i, parts = some_member(d, lines)
        if parts:
            before, key, _, value = parts
            lines[i] = change(d, before, key, value)
    apply.__name__ = change.__name__
    return apply


@with_member
def odd_value(d, before, key, value):
    return f"{before}{key}: {d.pick(SCALARS)}"


@with_member
def near_value(d, before, key, value):
    return f"{before}{key}: {value[:-1] if d.below(2) else value + d.pick(INSERTS)}"


@with_member
def no_value(d, before, key, value):
    return f"{before}{key}:"


@with_member
def quoted_value(d, before, key, value):
    quotes = d.pick(["\"", "'"])
    return f"{before}{key}: {value.strip(quotes) if d.below(3) == 0 else quotes + value + quotes}"


@with_member
def other_key(d, before, key, value):
    return f"{before}{d.pick(KEYS)}: {value}"


@with_member
def near_key(d, before, key, value):
    return f"{before}{d.pick([key.swapcase(), key + 's', key[:-1] or 'k', key + ' ', chr(34) + key + chr(34)])}: {value}"


@with_member
def another_member(d, before, key, value):
    return f"{before}{key}: {value}\n{before.replace('-', ' ')}{d.pick(KEYS)}: {d.pick(SCALARS)}"


@with_member
def listed_value(d, before, key, value):
    return f"{before}{key}: {d.pick(['[%s]', '{a: %s}', '[%s, %s]', '{%s}'])}".replace("%s", value)


@with_member
def merged_member(d, before, key, value):
    merge = d.pick(["{instances: 2}", "{x: 1}", "*m", "[*m]", "[{a: 1}, {b: 2}]", "1", "~", "[1]"])
    return f"{before}<<: {merge}\n{before.replace('-', ' ')}{key}: {value}"


def anchored_member(d, lines):
    i, parts = some_member(d, lines)
    k, other = some_member(d, lines)
    if not parts:
        return
    name = d.pick("am")
    lines[i] = f"{parts[0]}{parts[1]}: &{name} {parts[3]}"
    lines[k] = f"{other[0]}{other[1]}: *{name}"


def odd_item(d, lines):
    i = d.below(len(lines))
    m = ITEM.match(lines[i])
    if m:
        lines[i] = m[1] + d.pick(SCALARS)


def swap_values(d, lines):
    i, one = some_member(d, lines)
    k, two = some_member(d, lines)
    if one:
        lines[i] = f"{one[0]}{one[1]}: {two[3]}"
        lines[k] = f"{two[0]}{two[1]}: {one[3]}"


# ---- characters ----------------------------------------------------------------------------

def insert_text(d, lines):
    i = d.below(len(lines))
    at = d.below(len(lines[i]) + 1)
    lines[i] = lines[i][:at] + d.pick(INSERTS) + lines[i][at:]


def drop_text(d, lines):
    i = d.below(len(lines))
    if lines[i]:
        at = d.below(len(lines[i]))
        lines[i] = lines[i][:at] + lines[i][at + 1 + d.below(3):]


TEXT = [drop_line, repeat_line, swap_lines, shift_line, shift_block, drop_block, repeat_block, move_block,
        swap_siblings, graft_block, cut_off, odd_value, odd_value, odd_value, near_value, no_value, quoted_value,
        other_key, near_key, another_member, another_member, listed_value, merged_member, anchored_member, odd_item,
        odd_item, swap_values, insert_text, drop_text]


# ---- trees ---------------------------------------------------------------------------------

def some_place(d, tree):
    """A random container of the tree, and one of its keys or indices."""
    places = []
    todo = [tree]
    while todo:
        v = todo.pop()
        for k in (list(v) if isinstance(v, dict) else range(len(v))):
            places.append((v, k))
            if isinstance(v[k], (dict, list)):
                todo.append(v[k])
    return d.pick(places) if places else (tree, None)


def copy(v):
    if isinstance(v, dict):
        return {k: copy(x) for k, x in v.items()}
    return [copy(x) for x in v] if isinstance(v, list) else v


def change_tree(d, tree):
    at, k = some_place(d, tree)
    if k is None:
        return
    kind = d.below(6)
    if kind <= 1:
        at[k] = copy(d.pick(TREES))
    elif kind == 2:
        del at[k]
    elif kind == 3:
        other, i = some_place(d, tree)
        at[k] = copy(other[i])
    elif isinstance(at, list):
        at.append(copy(at[k]))
    elif kind == 4:
        at[d.pick(KEYS)] = at.pop(k)
    else:
        at[d.pick(KEYS)] = copy(d.pick(TREES))


def write_tree(d, tree):
    text = json.dumps(tree, indent=d.pick([None, None, 2, "\t"]), ensure_ascii=d.below(2) == 0)
    if d.below(8) == 0:  # duplicate members, extra commas, comments
        at = d.below(len(text))
        cut = text.find(",", at)
        if cut >= 0:
            text = text[:cut] + d.pick([",,", ", \"x\": 1,", "", ", // a\n", ", /* b */", ",\t"]) + text[cut + 1:]
    return text


# ---- mutants -------------------------------------------------------------------------------

def mutant(document, seed, i):
    """Mutant i of a document, which is (name, text or tree), as bytes."""
    name, content = document
    d = Dice(seed, i)
    times = d.pick([1, 1, 1, 1, 1, 2, 3])
    if isinstance(content, dict):
        tree = copy(content)
        for _ in range(times):
            change_tree(d, tree)
        text = write_tree(d, tree)
    else:
        lines = content.split("\n")
        for _ in range(times):
            d.pick(TEXT)(d, lines)
            lines = "\n".join(lines).split("\n")
        text = "\n".join(lines)
    return text.encode("utf-8", "surrogatepass")


# ---- scalars as members of every type --------------------------------------------------------

JOB = """protocolVersion: 2
name: job
type: job
version: VERSION
description: DESCRIPTION
prerequisites:
  - {type: dockerimage, name: image, uri: "ubuntu:22.04"}
parameters:
  p: PARAMETER
  q: [QUEUE]
jobRetryCount: RETRIES
taskRoles:
  worker:
    instances: INSTANCES
    completion: {minFailedInstances: FAILED}
    dockerImage: image
    extraContainerOptions: {infiniband: INFINIBAND}
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: GPU}
    commands:
      - COMMAND
defaults:
  virtualCluster: CLUSTER
extras:
  ANY
"""
HARMLESS = {"VERSION": "1", "DESCRIPTION": "x", "PARAMETER": "1", "QUEUE": "1", "RETRIES": "0", "INSTANCES": "1", "FAILED": "1",
            "INFINIBAND": "false", "GPU": "0", "COMMAND": "date", "CLUSTER": "default", "ANY": "x: 1"}


def scalar_jobs():
    """Every scalar as every member, one at a time, and the unchanged scalar documents."""
    jobs = list(DOCUMENTS)
    for place in HARMLESS:
        for scalar in SCALARS:
            values = {**HARMLESS, place: scalar + ": 1" if place == "ANY" else scalar}
            jobs.append(re.sub("[A-Z]{3,}", lambda m, v=values: v[m[0]], JOB))
    return [text.encode("utf-8", "surrogatepass") for text in jobs]
