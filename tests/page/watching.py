"""What the tests of several pages read from a page."""
FOREVER = "while sleep 0.2; do :; done"
COLOURS = r"printf '\033[1;31mred\033[0m plain\n'; printf '\rstep 1'; printf '\rstep 2\n'; echo 'Needle <b>one</b>'"
JSON = {"Content-Type": "application/json"}


def row(page, name):
    """The text of the row with this link; "" if there is none."""
    return page.js("return [...document.querySelectorAll('table[aria-label=Jobs] tbody tr')]"
                   ".find((r) => r.querySelector('a')?.textContent === arguments[0])?.innerText ?? ''", name)


def log_text(page, task="main[0]"):
    return page.text("log", f"Log of {task}")


def state(page):
    return page.text("status", "State")


def chart(page):
    """The description of the chart, also if nothing has changed, so that there are no areas."""
    return page.js("return document.querySelector('figure')?.title ?? ''")
