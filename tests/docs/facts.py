"""What the documents say, compared with the sources: links and headings."""
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def without_blocks(text):
    return re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.M | re.S)


def anchors(text):
    """The anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.*)$", without_blocks(text), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_links(check):
    """Every relative link leads to a file, and to a heading of it."""
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


TESTS = [test_links]
