#!/usr/bin/python3
"""From a keystroke to the mark of the mistake that it makes, in a job of 40 KB, for docs/BENCH-LOG.md.

    tests/bench/keystrokes.py [N]     with N keystrokes (100)"""
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), name) for name in ("page", "local", "http")]

from browser import Browser
from editor import VIEW, Editor
from harness import Checks, Server, wait_until
from selenium.webdriver.common.keys import Keys

JOB = os.path.join(HERE, "large.yaml")
# The time of the key in restLitKey, that of the frame which shows or no longer shows a mark in restLitMark.
CLOCK = VIEW + """
const at = view.state.doc.toString().indexOf("cpu: ", view.state.doc.length / 2);
const end = view.state.doc.lineAt(at).text.slice(at - view.state.doc.lineAt(at).from).match(/cpu: \\d+/)[0].length;
view.dispatch({ selection: { anchor: at + end }, scrollIntoView: true });
view.focus();
let shown = false;
shadow.addEventListener("keydown", () => { window.restLitKey = performance.now(); window.restLitMark = 0; }, true);
new MutationObserver(() => {
	const now = shadow.querySelector(".cm-mistake") !== null;
	if (now !== shown) requestAnimationFrame(() => { window.restLitMark = performance.now(); });
	shown = now;
}).observe(shadow, { childList: true, subtree: true, attributes: true });"""


def press(page, key):
    """Milliseconds from this key to the change of the mark."""
    page.press(key)
    wait_until(lambda: page.js("return window.restLitMark"))
    return page.js("return window.restLitMark - window.restLitKey")


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory(prefix="rest-lit-page.", ignore_cleanup_errors=True) as tempfile.tempdir:
        os.chmod(tempfile.tempdir, 0o755)
        try:
            with Server("--engine=none", "--local", "jobs") as server, Editor(Checks(), server) as page:
                with open(JOB, "rb") as f:
                    page.drop(f.read())
                wait_until(page.is_ready)
                page.js_async(CLOCK)
                times = []
                for _ in range(n):
                    times.append(press(page, "x"))
                    press(page, Keys.BACKSPACE)
        finally:
            Browser.close()
    times.sort()
    size = os.path.getsize(JOB)
    print(f"| keystroke to mark, job of {size} bytes, median | {statistics.median(times):.0f} ms | |")
    print(f"| ... p95 of {n} | {times[int(0.95 * n) - 1]:.0f} ms | 350 ms |")
    print(f"| ... at most | {times[-1]:.0f} ms | |")


main()
