"""The web page in a real Chromium: one browser for all tests; each test opens a `Page`.

    def test_page_has_a_link_to_jobs(check):
        with Machine() as server, Page(check, server, "#/machine") as page:
            page.click("link", "Jobs")
            check.ok("jobs", page.find("heading", "Jobs"))

Elements are found by role and accessible name, as assistive tools see them, also in shadow roots.
The page may replace each of them at any time: an element is found anew for each use, which is
repeated if it was replaced meanwhile.  At its end, a Page fails its test if there was a CSP report,
an error in the console, an exception that nobody caught, or a request to another origin."""
import json
import os
import re
import shutil
import time
import urllib.parse

from harness import PATIENCE, SLOW, wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    raise SystemExit("page: python3-selenium is not installed for this python3: see packages.txt") from None

WIDE, PHONE = (1400, 900), (390, 844)
# The page also asks for what may be missing or forbidden; Chromium logs each answer of 4xx and 5xx,
# and each failed connection.
EXPECTED = re.compile(r"Failed to load resource|net::ERR_")
WATCH = """(() => {
	const seen = [];
	const note = (text) => seen.push(String(text).slice(0, 500));
	Object.defineProperty(window, "restLitSeen", { value: seen });
	for (const name of ["ran", "alert", "confirm", "prompt", "print"]) {
		Object.defineProperty(window, name, { value: (n) => note(`${name}(${n}) was called`) });
	}
	addEventListener("securitypolicyviolation", (e) =>
		note(`CSP ${e.effectiveDirective}: ${e.blockedURI} ${e.sample} ${e.sourceFile}:${e.lineNumber}`));
	addEventListener("error", (e) => note(`error ${e.message} ${e.filename}:${e.lineno}`));
	addEventListener("unhandledrejection", (e) => note(`rejection ${e.reason?.stack ?? e.reason}`));
})()"""


def start_chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--lang=en",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars", "--font-render-hinting=none"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver") or "chromedriver"), options=options)
    driver.set_script_timeout(PATIENCE * SLOW)
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    return driver


def again(action, seconds=PATIENCE):
    """The result of an action, which is repeated while the browser refuses it: the page replaces what it uses."""
    end = time.monotonic() + seconds * SLOW
    while True:
        try:
            return action()
        except WebDriverException:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


class Element:
    """The first element of this role and name, with the methods of selenium's elements."""

    def __init__(self, page, role, name):
        self.page, self.role, self.name = page, role, name

    def __getattr__(self, method):
        return lambda *arguments: self.page.use(self.role, self.name, lambda found: getattr(found, method)(*arguments))


class Browser:
    """The one Chromium of this process, started by the first test that needs it."""
    driver = None

    @classmethod
    def get(cls):
        if cls.driver is None:
            cls.driver = start_chromium()
        return cls.driver

    @classmethod
    def close(cls):
        if cls.driver is not None:
            cls.driver.quit()
            cls.driver = None


class Page:
    """The page of `server` (with a port) at this hash.  `below`: path of the server's page."""

    def __init__(self, check, server, hash_="#/jobs", size=WIDE, dark=False, below="/"):
        self.check, self.driver = check, Browser.get()
        self.origin = f"http://127.0.0.1:{server.port}"
        self.url = self.origin + below
        self.forgiven, self.requests, self.messages = [], [], []
        self.driver.get("about:blank")
        self.drop_logs()
        self.resize(size)
        self.emulate(dark)
        self.driver.get(self.url + hash_)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind:
                print(f"     at {self.driver.current_url}: {self.body()[:1500]}", flush=True)
            self.look()
            self.driver.get("about:blank")
        except WebDriverException as error:
            Browser.close()
            if not kind:
                raise RuntimeError("the browser failed") from error

    # ---- what must not happen ----
    def drop_logs(self):
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)

    def forgive(self, pattern):
        """Errors that match are part of this test."""
        self.forgiven.append(re.compile(pattern))

    def look(self):
        """Checks what happened since the last look; `requests` and `messages` have all until then."""
        seen = self.js("return window.restLitSeen ? window.restLitSeen.splice(0) : []")
        seen += [line["message"] for line in self.driver.get_log("browser")
                 if line["level"] == "SEVERE" and not EXPECTED.search(line["message"])]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            self.messages.append(message)
            if message["method"] == "Network.requestWillBeSent":
                request = message["params"]["request"]
                self.requests.append(request)
                if not self.is_own(request["url"]):
                    seen.append(f"request to {request['url'][:200]}")
        wrong = [text for text in seen if not any(p.search(text) for p in self.forgiven)]
        self.check.equal("nothing is wrong in the browser", wrong, [])

    def is_own(self, url):
        return url.startswith((self.origin + "/", "data:", f"blob:{self.origin}/", "about:"))

    # ---- the window ----
    def resize(self, size):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})

    def emulate(self, dark):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def go(self, hash_):
        self.js("location.hash = arguments[0]", hash_)

    def hash(self):
        return urllib.parse.unquote(self.driver.current_url.partition("#")[2])

    def reload(self):
        self.driver.refresh()

    def js(self, script, *arguments):
        """The value of a function body, in the page."""
        return self.driver.execute_script(script, *arguments)

    def js_async(self, body, *arguments):
        """The value of the body of an async function; `api`, `dom` and the others are the page's modules."""
        done = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1], args = [...arguments].slice(0, -1);"
            "const load = (name) => import(new URL(`web/${name}.js`, document.baseURI));"
            f"(async () => {{ {body} }})().then((value) => done([value]), (e) => done(String(e.stack || e)));", *arguments)
        if isinstance(done, str):
            raise AssertionError(done)
        return done[0]

    def body(self):
        return self.js("return document.body ? document.body.innerText : ''")

    # ---- elements ----
    def nodes(self, role, name=None):
        """Nodes of the accessibility tree: (backend id, name)."""
        cdp = self.driver.execute_cdp_cmd

        def query():
            root = cdp("DOM.getDocument", {"depth": 0})["root"]["backendNodeId"]
            return cdp("Accessibility.queryAXTree", {"backendNodeId": root, "role": role})["nodes"]
        out = []
        for node in again(query):
            if node.get("ignored") or "backendDOMNodeId" not in node:
                continue
            label = node.get("name", {}).get("value", "")
            if name is None or (name.search(label) if isinstance(name, re.Pattern) else label == name):
                out.append((node["backendDOMNodeId"], label))
        return out

    def names(self, role, name=None):
        """The accessible names of the elements of this role."""
        return [label for _, label in self.nodes(role, name)]

    def first(self, role, name, seconds=PATIENCE):
        """The backend id of the first element of this role and name (text or pattern), as soon as there is one."""
        found = []

        def there():
            found[:] = self.nodes(role, name)[:1]
            return found
        if not wait_until(there, seconds):
            raise AssertionError(f"there is no {role} {name!r}; there are {self.names(role)}")
        return found[0][0]

    def find(self, role, name=None, seconds=PATIENCE):
        """The Element, as soon as it is there."""
        self.first(role, name, seconds)
        return Element(self, role, name)

    def has(self, role, name=None):
        return bool(self.nodes(role, name))

    def gone(self, role, name=None):
        return wait_until(lambda: not self.has(role, name))

    def call(self, backend_id, function):
        """The value of a function of a node that is part of the document, in one step."""
        cdp = self.driver.execute_cdp_cmd
        found = cdp("DOM.resolveNode", {"backendNodeId": backend_id})["object"]["objectId"]
        done = cdp("Runtime.callFunctionOn", {"objectId": found, "returnByValue": True, "functionDeclaration":
                                              f"function () {{ return this.isConnected ? [({function})(this)] : null; }}"})
        value = done["result"].get("value")
        if value is None:
            raise StaleElementReferenceException(f"{function}: the element was replaced: {done.get('exceptionDetails')}")
        return value[0]

    def use(self, role, name, action):
        """The result of an action with the element of selenium."""
        def used():
            self.call(self.first(role, name), "(element) => { window.restLitFound = element; }")
            return action(self.js("return window.restLitFound"))
        return again(used)

    def text(self, role, name=None):
        return again(lambda: self.call(self.first(role, name), "(element) => element.innerText"))

    def click(self, role, name=None):
        def clicked(element):
            self.js("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()
        self.use(role, name, clicked)

    def type(self, role, name, text, clear=True):
        def typed(element):
            if clear:
                element.clear()
            element.send_keys(text)
        self.use(role, name, typed)

    def press(self, *keys):
        """Keys, at the element that has the focus."""
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def focused(self):
        """(role, name) of the element that has the focus."""
        def read():
            element = self.driver.switch_to.active_element
            return element.aria_role, element.accessible_name
        return again(read)

    def has_focus(self, role, name):
        """Returns True when an element of this role and name (text or pattern) gets the focus."""
        def there():
            now, label = self.focused()
            return now == role and (name.search(label) if isinstance(name, re.Pattern) else label == name)
        return wait_until(there)

    def tab_to(self, role, name, most=60):
        """Tab until this element has the focus; False if `most` are not enough."""
        for _ in range(most):
            if self.focused() == (role, name):
                return True
            self.press(Keys.TAB)
        return self.focused() == (role, name)

    def shows(self, text, seconds=PATIENCE):
        """Returns True if this text (or pattern) appears."""
        def there():
            body = self.body()
            return text.search(body) if isinstance(text, re.Pattern) else text in body
        return bool(wait_until(there, seconds))

    def screenshot(self, path, whole=False):
        """`whole`: also what is below the window."""
        if whole:
            width, height = self.js("return [innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]")
            self.resize((width, min(height, 4000)))
        self.driver.save_screenshot(path)


def settle(page, condition, what, seconds=PATIENCE):
    """Fails the test unless the condition becomes true."""
    if not page.check.ok(what, wait_until(condition, seconds)):
        raise AssertionError(f"{what}: {page.body()[:600]}")
