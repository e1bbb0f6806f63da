"""Every JSON answer that a test gets is compared with the OpenAPI document, strictly: members that a schema
does not name are faults, too."""
import functools
import json
import os
import re
import subprocess

BINARY = os.environ.get("REST_LIT", os.path.join(os.path.dirname(__file__), "..", "..", "build", "rest-lit"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


@functools.cache
def document():
    """The document and, in the order of the table of routes, (expression of the path, its methods)."""
    text = subprocess.run([BINARY, "page", "openapi"], stdout=subprocess.PIPE, check=True).stdout
    whole = json.loads(text)
    return whole, [(re.compile("(?:/rest-server)?" + re.sub(r"\\{[^}]*\\}", lambda m: ".+" if "path" in m.group() else "[^/]+",
                                                            re.escape(path)) + "/?"), path, item)
                   for path, item in whole["paths"].items()]


def operation(method, target):
    """(path of the document, operation) of a request; None if there is none."""
    target = target.split("?", 1)[0]
    for expression, path, item in document()[1]:
        if expression.fullmatch(target) and method.lower() in item:
            return path, item[method.lower()]
    return None


def faults(schema, value, where="$"):
    """Returns a description of the difference between the value and the schema."""
    if "$ref" in schema:
        schema = document()[0]["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if value is None and schema.get("nullable"):
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{where}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    for name in ("oneOf", "anyOf"):
        found = [list(faults(s, value, where)) for s in schema.get(name, [])]
        if found and sum(not f for f in found) != 1:
            yield f"{where}: {name}: {found}"
    if isinstance(value, list):
        for i, item in enumerate(value):
            if i < 100 or i % 50 == 0:  # long lists have items of one kind
                yield from faults(schema.get("items", {}), item, f"{where}[{i}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", not known)
        yield from (f"{where}: has no {key}" for key in schema.get("required", []) if key not in value)
        for key, member in value.items():
            if key not in known and not others:
                yield f"{where}: {key} is not documented"
            yield from faults(known.get(key, others if isinstance(others, dict) else {}), member, f"{where}.{key}")


def compare(method, target, status, content_type, body):
    """Raises AssertionError if an answer differs from the document."""
    found = operation(method, target)
    if not found or not body:
        return
    answer = found[1]["responses"].get(str(status))
    if answer is None:
        if status < 400:
            raise AssertionError(f"{method} {target}: {status} is not documented")
        return
    kind = content_type.split(";")[0]
    content = answer["content"]
    if status == 400 and not kind:
        return  # of libmicrohttpd 1.0, for what is not HTTP
    if kind not in content and "*/*" not in content and target.split("?")[0] not in ("/", "/rest-server/"):
        raise AssertionError(f"{method} {target}: {status}: {kind} is not documented")
    if kind in content and kind in ("application/json", "text/yaml"):
        wrong = list(faults(content[kind]["schema"], json.loads(body)))
        if wrong:
            raise AssertionError(f"{method} {target}: {status} {body[:300]!r} differs from the document: {wrong[:10]}")
