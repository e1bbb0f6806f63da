"""Shapes of input: each creates a job of about the given size.  Some are accepted, others are
refused at their end."""

HEAD = "protocolVersion: 2\nname: j\ntype: job\n"
IMAGE = "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
ROLE = "    dockerImage: i\n    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n"
ROLES = "taskRoles:\n  w:\n" + ROLE + "    commands: [echo]\n"
JOB = HEAD + IMAGE + ROLES
V1 = '{"jobName": "j", "image": "i", %s"taskRoles": [%s]}'
V1_ROLE = '{"name": "m", "command": "x"%s}'


def fill(size, line, first="", last=""):
    """Repeat lines up to the size; `line` is a text, or a function of the line number."""
    out, n, i = [first], len(first) + len(last), 0
    while n < size:
        text = line(i) if callable(line) else line
        out.append(text)
        n += len(text.encode())
        i += 1
    return "".join(out) + last


def parameters(line):
    return lambda n: fill(n, line, JOB + "parameters:\n")


def commands(line, more=""):
    first = HEAD + IMAGE + "taskRoles:\n  w:\n" + ROLE + "    commands:\n"
    return lambda n: fill(n, line, first, more)


def literal(line, more=""):
    return commands(line, more) if not isinstance(line, str) else commands("      " + line, more)


def flow(line):
    return lambda n: fill(n, line, JOB + "parameters: {x: [", "]}\n")


def nested(open_, close):
    def make(n):
        one = open_ * 60 + close * 60
        return fill(n, "  - " + one + "\n", JOB + "parameters:\n  x:\n")
    return make


def v1_job(member):
    return lambda n: V1 % (fill(n, member), V1_ROLE % "")


def block(first, line):
    return lambda n: fill(n, line, JOB + first)


SHAPES = {
    # directives, documents
    "tag directives": lambda n: fill(n, lambda i: "%%TAG !a%06d! tag:x,2000:\n" % i, "", "---\n" + JOB),
    "tag directives behind the end": lambda n: fill(n, lambda i: "%%TAG !a%06d! tag:x,2000:\n" % i, JOB + "...\n"),
    "comments that look like directives": lambda n: fill(n, "# %TAG !a! x\n", "", "---\n" + JOB),
    "documents": lambda n: fill(n, "---\na: 1\n", JOB),
    "ends of documents": lambda n: fill(n, "...\n", JOB),
    # anchors, aliases, merges, tags
    "anchors": parameters(lambda i: "  k%d: &a%d x\n" % (i, i)),
    "one anchor again and again": parameters(lambda i: "  k%d: &a x\n" % i),
    "aliases of a scalar": lambda n: fill(n, "    - *a\n", JOB + "parameters:\n  a: &a x\n  b:\n"),
    "aliases of a list": lambda n: fill(n, "    - *a\n", JOB + "parameters:\n  a: &a [1, 2, 3]\n  b:\n"),
    "anchors and aliases": parameters(lambda i: "  k%d: &a%d x\n  l%d: *a%d\n" % (i, i, i, i)),
    "aliases of aliases": parameters(lambda i: "  k%d: &a%d [%s]\n" % (i, i, "*a%d, *a%d" % (i - 1, i - 1) if i else "")),
    "unknown aliases": parameters("  - *nope\n"),
    "merges": lambda n: fill(n, lambda i: "  k%d: {<<: *a, b: 1}\n" % i, JOB + "parameters:\n  a: &a {x: 1, y: 2}\n"),
    "one mapping with many merges": lambda n: fill(n, "    <<: *a\n", JOB + "parameters:\n  a: &a {x: 1}\n  b:\n"),
    "merges of lists": lambda n: fill(n, "*a, ", JOB + "parameters:\n  a: &a {x: 1}\n  b: {<<: [", "*a]}\n"),
    "tags": parameters(lambda i: "  k%d: !!str 1\n" % i),
    "unknown tags": parameters(lambda i: "  k%d: !x 1\n" % i),
    # depth
    "deep flow": lambda n: JOB + "parameters: {x: " + "[" * n,
    "deep flow mappings": lambda n: JOB + "parameters: {x: " + "{a: " * (n // 4),
    "deep blocks": lambda n: JOB + "parameters:\n  - " + "- " * (n // 2) + "a\n",
    "as deep as may be": nested("[", "]"),
    "deep again and again": nested("{a: ", "}"),
    # keys
    "keys": parameters(lambda i: "  k%d: 1\n" % i),
    "long keys": parameters(lambda i: "  %s%d: 1\n" % ("k" * 900, i)),
    "keys that are too long": parameters(lambda i: "  %s%d: 1\n" % ("k" * 2000, i)),
    "one key again and again": parameters("  k: 1\n"),
    "keys with a question mark": parameters(lambda i: "  ? k%d\n  : 1\n" % i),
    "keys that are numbers": parameters(lambda i: "  %d: 1\n" % i),
    # scalars
    "numbers": flow("1.5e3, "),
    "long numbers": flow("1234567890" * 30 + ", "),
    "dates": flow("2001-01-01, "),
    "nothing": flow("~, "),
    "double quotes": flow('"a\\u00e9\\n", '),
    "single quotes": flow("'it''s', "),
    "quotes over lines": block("parameters:\n  x: \"\n", "    a\n\n"),
    "plain text over lines": block("parameters:\n  x: a\n", "    b c\n\n"),
    "a literal block": block("parameters:\n  x: |\n", "    a b\n"),
    "a folded block": block("parameters:\n  x: >\n", "    a b\n\n"),
    "literal blocks": commands("    - |\n      a\n"),
    "blank lines in a literal block": block("parameters:\n  x: |\n    a\n", "\n"),
    "an endless quote": lambda n: JOB + "parameters: {x: \"" + "a" * n,
    "one long line": lambda n: JOB + "parameters: {x: " + "a" * n + "}\n",
    "text beyond ASCII": flow("\u00e9\u6570\U0001f600, "),
    "line breaks of Unicode in comments": lambda n: fill(n, "# \u2028\u0085\n", JOB),
    # blanks, comments, tabs
    "comments": lambda n: fill(n, "# a comment\n", JOB),
    "comments behind values": parameters(lambda i: "  k%d: 1 # one\n" % i),
    "blank lines": lambda n: fill(n, "\n", JOB),
    "blanks": lambda n: JOB + " " * n,
    "tabs in blank lines": lambda n: fill(n, " \t\n", JOB),
    "blanks beside tabs": lambda n: JOB + "\t\nparameters: {x: a" + " " * n + "b}\n",
    "tabs before comments": lambda n: fill(n, "\t# a\n", JOB),
    "tabs in a literal block": block("parameters:\n  x: |\n    a\n", "\t\n"),
    "literal blocks that begin with tabs": commands("    - |\n      \ta\n"),
    "carriage returns": lambda n: fill(n, "# a\r\n", JOB),
    # jobs
    "roles": lambda n: fill(n, lambda i: "  w%d:\n%s    commands: [echo]\n" % (i, ROLE), HEAD + IMAGE + "taskRoles:\n"),
    "commands": commands("    - echo\n"),
    "placeholders": commands("    - <% $parameters.x %>\n", "parameters: {x: 1}\n"),
    "placeholders that lead to nothing": commands("    - <% $parameters.xy %>\n", "parameters: {xz: 1}\n"),
    "placeholders into depth": commands("    - <% $parameters.a.b.c.d.e %>\n", "parameters: {a: {b: {c: {d: 1}}}}\n"),
    "an unclosed placeholder": commands("    - <% a\n"),
    "sections": commands("    - <%# a %>x<%/ a %>\n"),
    "commands with dollars": commands("    - $$(A)$$$\n"),
    "prerequisites": lambda n: fill(n, lambda i: "- {name: d%d, type: data, uri: []}\n" % i, HEAD + IMAGE, ROLES),
    "one prerequisite again and again": lambda n: fill(n, "- {name: d, type: data, uri: []}\n", HEAD + IMAGE, ROLES),
    "logins": lambda n: fill(n, lambda i: "- {name: d%d, type: dockerimage, uri: r%d.io/x, auth: {username: a}}\n" % (i, i),
                             HEAD + IMAGE, ROLES),
    "secrets": lambda n: fill(n, lambda i: "  k%d: s3cr3t\n" % i, JOB + "secrets:\n"),
    "deployments": lambda n: fill(n, lambda i: "- {name: d%d, taskRoles: {w: {preCommands: [a]}}}\n" % i, JOB + "deployments:\n"),
    "storages": lambda n: fill(n, lambda i: "    - {name: s%d}\n" % i, JOB + "extras:\n  storages:\n"),
    "plugins": lambda n: fill(n, lambda i: "    - {plugin: p%d, taskroles: [a, b]}\n" % i,
                              JOB + "extras:\n  com.microsoft.pai.runtimeplugin:\n"),
    "ports": lambda n: fill(n, lambda i: "p%d: 1, " % i, HEAD + IMAGE + "taskRoles:\n  w:\n    dockerImage: i\n    commands: [a]\n"
                            "    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0, ports: {", "x: 1}}\n"),
    # mistakes
    "unknown members": lambda n: fill(n, lambda i: "k%d: 1\n" % i, JOB),
    "roles that are wrong": lambda n: fill(n, lambda i: "  w%d: 1\n" % i, HEAD + IMAGE + "taskRoles:\n"),
    "commands that are mappings": commands("    - a: b\n"),
    "commands that are numbers": commands("    - 1\n"),
    "values that others read differently": lambda n: fill(n, "    - yes\n", JOB + "extras:\n  storages:\n"),
    "parameters that are passwords": parameters(lambda i: "  k%d_password: x\n" % i),
    "URLs with passwords": commands("    - http://a:b@c/\n"),
    # JSON, v1
    "JSON": lambda n: fill(n, '"x", ', '{"protocolVersion": 2, "parameters": {"a": [', '1]}}'),
    "JSON with escapes": lambda n: fill(n, '"\\u00e9\\ud83d\\ude00", ', '{"protocolVersion": 2, "parameters": {"a": [', '1]}}'),
    "JSON with comments": lambda n: fill(n, "// a\n/* b */ ", "", V1 % ("", V1_ROLE % "")),
    "JSON that is deep": lambda n: '{"a": ' * (n // 6),
    "JSON that is broken": lambda n: fill(n, '"x", ', '{"protocolVersion": 2, "parameters": {"a": [', '1]'),
    "JSON that is YAML": lambda n: fill(n, "x, ", "{protocolVersion: 2, parameters: {a: [", "1]}}"),
    "JSON with one key again and again": lambda n: fill(n, '"k": 1, ', '{"protocolVersion": 2, "parameters": {', '"x": 1}}'),
    "v1": v1_job('"x": 1, '),
    "v1 with roles": lambda n: V1 % ("", fill(n, lambda i: '{"name": "m%d", "command": "x"}, ' % i, "", V1_ROLE % "")),
    "v1 with an environment": lambda n: V1 % ('"jobEnvs": {%s}, ' % fill(n, lambda i: '"K%d": "v", ' % i, "", '"X": 1'), V1_ROLE % ""),
    "v1 with a long command": lambda n: V1 % ("", '{"name": "m", "command": "%s"}' % ("$PAI_JOB_NAME " * (n // 14))),
    "v1 with ports": lambda n: V1 % ("", V1_ROLE % (', "portList": [%s]' % fill(n, lambda i: '{"label": "p%d"}, ' % i, "", '{"label": "x"}'))),
    "v1 with numbers as text": lambda n: V1 % ("", fill(n, lambda i: '{"name": "m%d", "command": "x", "taskNumber": "1"}, ' % i, "", V1_ROLE % "")),
}
