"""No findings of axe-core on any page.  It comes from npm, in the version of the lock file."""
import functools
import itertools
import json
import os
import shutil
import subprocess

from browser import PHONE, WIDE, Page, settle
from harness import ROOT
from scene import PAGES, Scene

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(ROOT, "build", "page")
PROGRAM = os.path.join(FOLDER, "node_modules", "axe-core", "axe.min.js")
RUN = """const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then((found) => done(JSON.stringify(found.violations.map((v) => ({
	id: v.id, impact: v.impact, nodes: v.nodes.map((n) => `${n.target.join(" ")}: ${n.failureSummary}`) })))));"""


@functools.cache
def problem():
    """Why npm does not install the packages of the lock file; "" if it does."""
    os.makedirs(FOLDER, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), FOLDER)
    try:
        done = subprocess.run(["npm", "ci", "--prefix", FOLDER, "--ignore-scripts", "--no-audit", "--no-fund"],
                              capture_output=True, timeout=300, check=False)
        return done.stderr.decode().strip()[-200:] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def installed(what):
    """False, with a line, if there is no npm or it does not reach the registry."""
    if problem():
        print(f"     not tested: npm does not install {what}: {problem()}", flush=True)
    return not problem()


def test_page_has_no_findings_of_axe(check):
    if not installed("axe-core"):
        return
    with open(PROGRAM, encoding="utf-8") as f:
        program = f.read()
    with Scene() as scene:
        for name, hash_, ready in PAGES:
            for size, dark in itertools.product((WIDE, PHONE), (False, True)):
                with Page(check, scene.of(name), hash_, size=size, dark=dark) as page:
                    settle(page, lambda: ready(page), f"{name} is shown")
                    page.driver.execute_script(program)
                    found = json.loads(page.driver.execute_async_script(RUN))
                    found = [f"{f['impact']} {f['id']}: {f['nodes'][:3]}" for f in found]
                    check.equal(f"{name}, {size[0]} px, {'dark' if dark else 'light'}", found, [])


CORE = []
WHOLE = [test_page_has_no_findings_of_axe]
