"""The account: who one is, and one's tokens: make, see, revoke."""
import re

from browser import Page, settle
from hostile import hostile_page
from machine import Machine
from place import SIGNATURE, Place
from selenium.webdriver.common.keys import Keys
from signin import PASSWORD, Cluster
from tokens import bearer, token

NOT_AGAIN = "It is not shown again"


def sign_in_with_password(page):
    page.type("textbox", "User", "alice")
    page.type("textbox", "Password", PASSWORD)
    page.press(Keys.ENTER)
    page.find("heading", "Account")
    page.find("table", "Tokens")


def sign_in_with(page, text):
    page.type("textbox", "Token", text)
    page.press(Keys.ENTER)
    page.find("heading", "Account")


def has_text(page, text):
    """The document has this text somewhere, also in values and attributes."""
    return page.js("""const all = [...document.querySelectorAll("*")];
        return document.documentElement.outerHTML.includes(arguments[0]) || all.some((e) => String(e.value ?? "").includes(arguments[0]))""", text)


def test_page_account_makes_and_revokes_a_token(check):
    """A new token is shown once; the list has its kind, name, times and end; revoking asks first; a
    session that has ended asks for the password only."""
    with Cluster() as c, Page(check, c.server, "#/account") as page:
        sign_in_with_password(page)
        version = c.server.request("GET", "/api/v2/info").json["version"]
        check.ok("server and manual", page.shows(f"rest-lit {version}") and page.shows("man rest-lit"))
        check.ok("who one is", page.shows("alice") and page.shows("Virtual clusters") and page.shows("default"))
        settle(page, lambda: page.find("link", "alice").get_attribute("aria-current") == "page", "the name leads here")
        page.type("textbox", "Name", "ci-main")
        page.click("button", "Make a token")
        page.find("region", "The new token")
        made = [t for k, t in c.stored().items() if k.startswith("ci-main.")][0]
        check.ok("it is shown", made in page.body() and NOT_AGAIN in page.body())
        check.ok("ready to be copied", page.has_focus("button", "Copy"), page.focused())
        said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(made)).json
        check.equal("30 days", said["exp"] - said["iat"], 30 * 86400)
        page.click("button", "Done")
        check.ok("never again", page.gone("region", "The new token") and not has_text(page, made) and NOT_AGAIN not in page.body())
        listed = re.compile(rf"this session\s+…\S+.*\napplication\s+ci-main\s+…{re.escape(made[-4:])}\s+(\d+[ms] ?)+ago\s+in 29d 23h")
        settle(page, lambda: listed.search(page.text("table", "Tokens")), "the list")
        exact = page.js("return [...document.querySelectorAll('td [title]')].map((e) => e.title)")
        check.ok("exact times", len(exact) == 4 and all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", t) for t in exact), exact)
        page.click("button", re.compile("^Revoke ci-main"))
        page.click("button", "Keep it")
        check.ok("not without a yes", made in c.stored().values())
        check.ok("the focus is where it was", page.has_focus("button", re.compile("^Revoke ci-main")), page.focused())
        page.click("button", re.compile("^Revoke ci-main"))
        page.click("button", "Revoke")
        settle(page, lambda: made not in c.stored().values(), "revoked")
        check.ok("which is said", page.shows("Revoked: ci-main."))
        check.ok("the focus is still here", page.has_focus("region", "Your tokens"), page.focused())
        settle(page, lambda: "ci-main" not in page.text("table", "Tokens"), "not listed")
        c.store("alice")
        page.go("#/jobs")
        check.ok("an end of the session", page.shows("Your session has ended."))
        check.equal("the name is known", page.find("textbox", "User").get_attribute("value"), "alice")
        check.ok("and the password asked for", page.has_focus("textbox", "Password"), page.focused())


def test_page_account_copies_the_new_token(check):
    """The button puts the token on the clipboard; no other token is in the document."""
    with Cluster() as c:
        old = c.store("alice", token("alice"))
        with Page(check, c.server, "#/account") as page:
            sign_in_with_password(page)
            for choice, lifetime in (("1 day", 86400), ("1 year", 31536000), ("never", None)):
                page.js("window.copied = null; navigator.clipboard.writeText = async (text) => { window.copied = text; }")
                page.find("combobox", "Expires").send_keys(choice)
                page.click("button", "Make a token")
                settle(page, lambda: page.has("region", "The new token"), "made")
                page.click("button", "Copy")
                settle(page, lambda: page.js("return window.copied"), "copied")
                text = page.js("return window.copied")
                said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(text)).json
                check.equal(f"{choice}: it expires", "exp" in said and said["exp"] - said["iat"], lifetime or False)
                page.click("button", "Done")
            check.ok("no token is in the document", not any(has_text(page, t) for t in c.stored().values()))
            check.ok("the old one is listed", f"…{old[-4:]}" in page.text("table", "Tokens"))
            page.type("textbox", "Name", "no/slash")
            page.click("button", "Make a token")
            check.ok("a name that is refused", page.js("return !document.querySelector('#page input').validity.valid"))


def test_page_account_revokes_the_own_session(check):
    """Revoking the token of this session says that it signs out, and does."""
    with Cluster() as c, Page(check, c.server, "#/account") as page:
        sign_in_with_password(page)
        page.click("button", re.compile("^Revoke this session"))
        check.ok("said before", page.shows("It signs you out."))
        page.click("button", "Revoke")
        page.find("textbox", "Password")
        check.equal("revoked", c.stored(), {})
        check.ok("said", page.shows("You are signed out") and "has ended" not in page.body())


def test_page_account_says_what_a_server_cannot_do(check):
    """Without logins, without a deny list, and with tokens that may not manage tokens."""
    with Machine() as server, Page(check, server, "#/account") as page:
        check.ok("no logins", page.shows("runs without logins and tokens"))
        check.equal("nothing to do", page.names("button"), ["Shortcuts"])
    with Place() as place:
        server = place.server(*SIGNATURE)
        with Page(check, server, "#/account") as page:
            sign_in_with(page, token())
            check.ok("no list, no revocation", page.shows("keeps no list of tokens") and page.shows("cannot be revoked on this server"))
            check.ok("no button for it", not page.has("button", re.compile("^Revoke")) and not page.has("textbox", "Name"))
            check.ok("all expire", "never" not in page.text("combobox", "Expires"))
        with Page(check, server, "#/account") as page:
            sign_in_with(page, token(application=True))
            check.ok("an application", page.shows("cannot manage tokens. Sign in as a person."))
            check.ok("no form", not page.has("button", "Make a token"))


def test_page_account_waits_for_a_store_that_fails(check):
    """While tokens cannot be read, the reason is shown; then the list."""
    with Cluster() as c, Page(check, c.server, "#/account") as page:
        sign_in_with_password(page)
        page.go("#/nowhere")
        c.api.every(status=403)
        page.go("#/account")
        check.ok("the reason", page.shows("at the moment"))
        c.api.every()
        settle(page, lambda: page.has("table", "Tokens"), "the list")


def test_page_account_shows_hostile_texts_as_text(check):
    hostile_page(check, "#/account", lambda page: page.js("return document.querySelectorAll('#page td').length > 50"))


CORE = [test_page_account_makes_and_revokes_a_token]
WHOLE = [test_page_account_copies_the_new_token, test_page_account_revokes_the_own_session,
         test_page_account_says_what_a_server_cannot_do, test_page_account_waits_for_a_store_that_fails,
         test_page_account_shows_hostile_texts_as_text]
