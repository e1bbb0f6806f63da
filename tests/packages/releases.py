"""packaging/release with a small tree in place of this one, and packaging/watch with recorded indices.

The tree's Makefile, packaging/repository and tests/tools are stand-ins, which end the whole run by SIGKILL at the place that
STOP names, "deb:2" for the second `make deb`."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile

from harness import ROOT

VERSION = "9.8.7"
STAND_IN = r"""#!/bin/bash
# stand-in NAME FILE... - write the files; end all at the place STOP; DIFFERENT=NAME: other bytes each time
set -eu
n=$(($(cat "$STATE/$1" 2>/dev/null || echo 0) + 1))
echo $n >"$STATE/$1"
[ "$1:$n" != "${STOP-}" ] || kill -KILL 0
for file in "${@:2}"; do
	mkdir -p "$(dirname "$file")"
	echo "${file##*/} ${IMAGE-}" >"$file"
	[ "${DIFFERENT-}" != "$1" ] || echo $n >>"$file"
done
"""
MAKEFILE = f"""VERSION := {VERSION}
dist:
	./stand-in dist build/dist/rest-lit-{VERSION}.tar.gz
manifests:
	IMAGE=$(IMAGE) ./stand-in manifests build/manifests/install.yaml build/manifests/try.yaml
deb:
	./stand-in deb build/deb/rest-lit_{VERSION}_amd64.deb build/deb/pai-runtime_{VERSION}_amd64.deb
portable: deb
	ls $(SOURCES)/curl.tar
	./stand-in portable build/portable/rest-lit-{VERSION}-linux-amd64.tar.gz build/portable/parts
wheel:
	./stand-in wheel build/portable/rest_lit-{VERSION}.whl
released:
	@./stand-in released; echo "$${{TABLE-| suite | green |}}"; [ -z "$$TABLE" ]
.PHONY: dist manifests deb portable wheel released
"""
FILES = {
    "Makefile": MAKEFILE, "stand-in": STAND_IN, ".gitignore": "build\n",
    "debian/changelog": f"rest-lit ({VERSION}) unstable; urgency=medium\n",
    "CHANGELOG.md": f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-12-01\n\n- news\n\n## [1.0] - 2026-01-01\n\n- old\n",
    "packaging/repository": '#!/bin/sh\n./stand-in repository "$1/$URL-$KEY" && shift && for each; do cp -r "${each#*=}" build/release/new/files/repository/; done\n',
    "packaging/portable.sources": "# SHA-256, file, suite\nabc  curl.tar  bookworm\n",
    "tests/tools/sbom": '#!/bin/sh\n./stand-in sbom && echo "list $*"\n',
}
MINISIGN = '#!/bin/sh\n"$TREE/stand-in" minisign && exec /usr/bin/minisign "$@"\n'
KINDS = ["dist", "manifests", "deb", "portable", "wheel"]
PART = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME-$(dpkg --print-architecture)"], stdout=subprocess.PIPE, text=True,
                      check=True).stdout.strip()
CODENAME, ARCHITECTURE = PART.split("-")
# build: of the first tree, between the two, of the second, of the lists; finish: the gate, the repository, before the
# signature, and behind it.
PLACES = ["dist:1", "deb:1", "wheel:1", "dist:2", "wheel:2", "sbom:3", "released:1", "repository:1", "minisign:1", "minisign:2"]


class Tree:
    """A context manager: a repository with the stand-ins, keys, and what the programs count."""

    def __init__(self, parent, like=None):
        self.root = tempfile.mkdtemp(dir=parent)
        self.tree, self.state = f"{self.root}/tree", f"{self.root}/state"
        if like:
            shutil.copytree(like.tree, self.tree)
            os.mkdir(self.state)
            return
        os.makedirs(f"{self.root}/state")
        for path, text in FILES.items():
            self.write(path, text)
        for path in ("packaging/release", "tests/tools/tree"):
            os.makedirs(os.path.dirname(f"{self.tree}/{path}"), exist_ok=True)
            shutil.copy(f"{ROOT}/{path}", f"{self.tree}/{path}")
        self.git("init", "-q")
        self.commit()

    def write(self, path, text):
        os.makedirs(os.path.dirname(f"{self.tree}/{path}"), exist_ok=True)
        with open(f"{self.tree}/{path}", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f"{self.tree}/{path}", 0o755 if text.startswith("#!") else 0o644)

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.tree, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a", "--date", "2026-12-01T00:00:00Z")

    def run(self, *arguments, **environment):
        """(exit status, output) of packaging/release; -9: it was ended."""
        shutil.rmtree(self.state)
        os.mkdir(self.state)
        parent = os.path.dirname(self.root)
        env = {**os.environ, "PATH": f"{parent}/programs:{os.environ['PATH']}", "TREE": self.tree, "STATE": self.state, "SOURCES": f"{parent}/sources",
               "MINISIGN_KEY": f"{parent}/a.key", "KEY": "AAAA", "URL": "here", "GIT_CONFIG_GLOBAL": "/dev/null", **environment}
        process = subprocess.Popen([f"{self.tree}/packaging/release", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True, env={k: v for k, v in env.items() if v is not None}, cwd="/")
        said = process.communicate(timeout=600)[0]
        return process.returncode, said

    def release(self):
        """The bytes of the release; None: there is none."""
        top = f"{self.tree}/build/release/{VERSION}"
        if not os.path.exists(top):
            return None
        files = {}
        for at, _, names in os.walk(top):
            for name in names:
                with open(os.path.join(at, name), "rb") as f:
                    files[os.path.relpath(os.path.join(at, name), top)] = f.read()
        return files


@contextlib.contextmanager
def workshop():
    """A folder with keys, a program ahead of minisign, and sources."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in ("programs/minisign", MINISIGN), ("sources/curl.tar", "curl"):
            os.mkdir(os.path.dirname(f"{folder}/{path}"))
            with open(f"{folder}/{path}", "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(f.name, 0o755)
        for key in "ab":
            subprocess.run(["minisign", "-G", "-W", "-p", f"{folder}/{key}.pub", "-s", f"{folder}/{key}.key"], check=True, capture_output=True)
        shutil.copy(f"{folder}/a.key", f"{folder}/other.key")
        shutil.copy(f"{folder}/b.pub", f"{folder}/other.pub")
        shutil.copy(f"{folder}/a.key", f"{folder}/lonely.key")
        yield folder


def test_interrupted_release_has_the_same_bytes(check):
    """Ended by SIGKILL at ten places and repeated: nothing is there before the end, then the same bytes."""
    with workshop() as folder:
        first = Tree(folder)
        for command in ["build", *KINDS], ["finish", PART], ["build", *KINDS], ["finish", PART]:
            status, said = first.run(*command)
            check.equal(f"{command[0]}: {said[-300:]}", status, 0)
        expected = first.release()
        check.equal("the files", sorted(expected), sorted([
            "NOTES.md", "SHA256SUMS", "SHA256SUMS.minisig", "curl.tar", "install.yaml", "try.yaml", f"rest_lit-{VERSION}.whl",
            *(f"rest-lit-{VERSION}{more}" for more in (".tar.gz", "-linux-amd64.tar.gz", f"-deb-{PART}.cdx.json", f"-portable-{ARCHITECTURE}.cdx.json")),
            "repository/here-AAAA", *(f"repository/{CODENAME}/{name}_{VERSION}_amd64.deb" for name in ("rest-lit", "pai-runtime"))]))
        check.equal("the sums", subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=f"{first.tree}/build/release/{VERSION}", check=False).returncode, 0)
        check.equal("all files have sums", expected["SHA256SUMS"].count(b"\n"), len(expected) - 2)
        notes = expected["NOTES.md"].decode()
        check.ok("the notes", "- news" in notes and "- old" not in notes and "| suite | green |" in notes, notes)
        for stop in PLACES:
            tree = Tree(folder, like=first)
            shutil.rmtree(f"{tree.tree}/build")
            ended = 0
            for command in ["build", *KINDS], ["finish", PART]:
                status, said = tree.run(*command, STOP=stop)
                if status == -signal.SIGKILL:
                    ended += 1
                    check.equal(f"{stop}: nothing is there", tree.release(), None)
                    status, said = tree.run(*command)
                check.equal(f"{stop}: {said[-300:]}", status, 0)
            check.equal(f"{stop}: ended, the same bytes", (ended, tree.release() == expected), (1, True))


def test_release_is_refused_with_the_reason(check):
    """A changed tree, another commit, builds that differ, what is missing: a reason, and nothing is there."""
    with workshop() as folder:
        good = Tree(folder)

        def refused(what, command, *words, change=None, **environment):
            tree = Tree(folder, like=good)
            if change:
                change(tree)
            status, said = tree.run(*command, **environment)
            check.ok(what, status == 1 and all(word in said for word in words), (status, said[-600:]))
            check.equal(f"{what}: no release", (tree.release(), os.path.exists(f"{tree.tree}/build/release/parts/{PART}/dist")),
                        (None, command[0] == "finish" and what != "no part"))
        everything = ["build", *KINDS]
        refused("a change", everything, "has changes", "new.txt", change=lambda t: t.write("new.txt", ""))
        refused("a tag", everything, f"v{VERSION} is another commit", change=lambda t: (
            t.git("tag", f"v{VERSION}"), t.write("new.txt", ""), t.commit()))
        refused("debian/changelog", everything, "debian/changelog another", change=lambda t: (
            t.write("debian/changelog", "rest-lit (1) unstable\n"), t.commit()))
        refused("CHANGELOG.md", everything, f"no section for {VERSION}", change=lambda t: (t.write("CHANGELOG.md", "# Changelog\n"), t.commit()))
        refused("a target", everything, "no target wheel", change=lambda t: (t.write("Makefile", MAKEFILE.replace("wheel", "whel")), t.commit()))
        refused("no files", everything, "make wheel has made no files", change=lambda t: (t.write("Makefile", MAKEFILE.replace(".whl", "")), t.commit()))
        refused("a kind", ["build", "rpm"], "rpm is none of dist, ")
        refused("builds that differ", everything, "differ", f"rest_lit-{VERSION}.whl", DIFFERENT="wheel")
        refused("no part", ["finish", PART], f"parts/{PART} is not there")
        status, said = good.run(*everything)
        check.equal(f"a build: {said[-300:]}", status, 0)
        finish = ["finish", PART]
        refused("a part of the four", ["finish"], "parts/", "is not there")
        refused("another commit", finish, "is of commit", "Remove it", change=lambda t: (t.write("new.txt", ""), t.commit()))
        refused("a suite", finish, "not all suites are green", "check: unit is missing", TABLE="check: unit is missing for this commit")
        refused("no key", finish, "MINISIGN_KEY=FILE.key", MINISIGN_KEY=None)
        refused("no public key", finish, "there is no file", "lonely.pub", MINISIGN_KEY=f"{folder}/lonely.key")
        refused("another public key", finish, "other.pub is not the key of the signature", MINISIGN_KEY=f"{folder}/other.key")
        refused("no address", finish, "URL= of the repository", URL=None)
        check.equal("finished", good.run(*finish)[0], 0)
        before = good.release()
        status, said = good.run(*finish, KEY="BBBB")
        check.ok("other bytes", status == 1 and "a release is not replaced" in said and "here-BBBB" in said, said)
        check.equal("the release stays", good.release() == before, True)


# ---- packaging/watch --------------------------------------------------------------------------------
# Names as of apt; two of them have other versions of the same package.
INDICES = {
    "a_dists_bookworm_main_source_Sources": "Package: curl\nBinary: curl\nVersion: 7.88.1-10+deb12u12\n\nPackage: libyaml\nVersion: 0.2.5-1\n",
    "a_dists_bookworm-security_main_source_Sources": "Package: curl\nVersion: 7.88.1-10+deb12u15\n\nPackage: zlib\nVersion: 1:1.2.13.dfsg-1\n",
    "a_dists_trixie_main_source_Sources": "Package: mbedtls\nVersion: 3.6.6-0.1~deb13u1\n\nPackage: curl\nVersion: 8.14.1-2\n",
    "a_dists_bookworm_main_binary-amd64_Packages": "Package: curl\nVersion: 7.88.1-10+deb12u14\nArchitecture: amd64\n",
}


def parts(*lines):
    """A list of parts, NAME VERSION ARCHITECTURE CODENAME each, as tests/tools/sbom writes them."""
    text = '{"bomFormat":"CycloneDX","specVersion":"1.4","components":[\n' + ",\n".join(
        '{"type":"library","name":"%s","version":"%s","purl":"pkg:deb/debian/%s@%s?arch=%s&distro=%s"}' %
        (name, version, name, version.replace("+", "%2B"), architecture, codename)
        for name, version, architecture, codename in (line.split() for line in lines))
    return text + "\n]}\n"


def test_later_versions_of_parts_are_found(check):
    """Against recorded indices: a later version, a part that no index has, damaged and missing files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in INDICES.items():
            with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                f.write(text)

        def watch(*lines, text=None, more=(), indices=tuple(INDICES)):
            with open(f"{folder}/list.json", "w", encoding="ascii") as f:
                f.write(parts(*lines) if text is None else text)
            done = subprocess.run([f"{ROOT}/packaging/watch", f"{folder}/list.json", *more, "--", *(f"{folder}/{name}" for name in indices)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
            return done.returncode, done.stdout
        now = ["curl 7.88.1-10+deb12u15 source bookworm", "libyaml 0.2.5-1 source bookworm", "zlib 1:1.2.13.dfsg-1 source bookworm",
               "mbedtls 3.6.6-0.1~deb13u1 source trixie", "curl 7.88.1-10+deb12u14 amd64 bookworm"]
        check.equal("all are the latest", watch(*now), (0, "5 parts, 0 findings\n"))
        check.equal("a part that is later than Debian's", watch("curl 8.14.1-3 source trixie"), (0, "1 parts, 0 findings\n"))
        check.equal("security", watch("curl 7.88.1-10+deb12u14 source bookworm", *now[1:]),
                    (1, "5 parts, 1 findings\ncurl 7.88.1-10+deb12u14: Debian bookworm has 7.88.1-10+deb12u15 (source package)\n"))
        check.equal("a binary package, an epoch, a revision", watch("curl 7.88.1-9 amd64 bookworm", "zlib 1.3-1 source bookworm", "mbedtls 3.6.6 source trixie"),
                    (1, "3 parts, 3 findings\ncurl 7.88.1-9: Debian bookworm has 7.88.1-10+deb12u14 (binary package)\n"
                     "zlib 1.3-1: Debian bookworm has 1:1.2.13.dfsg-1 (source package)\nmbedtls 3.6.6: Debian trixie has 3.6.6-0.1~deb13u1 (source package)\n"))
        check.equal("no index has it", watch("zlib 1:1.2.13.dfsg-1 source trixie"),
                    (1, "1 parts, 1 findings\nzlib 1:1.2.13.dfsg-1: no index of trixie has this source package\n"))
        for what, word, case in [("no list", "/nonexistent cannot be read", {"more": ["/nonexistent"]}), ("an empty list", "damaged", {"text": ""}),
                                 ("a damaged line", "damaged", {"text": parts(*now).replace("arch=source&distro=trixie", "arch=source")}),
                                 ("no index", "cannot be read", {"indices": ["a_dists_sid_Sources"]}),
                                 ("a name without a release", "cannot be read", {"indices": ["list.json"]})]:
            status, said = watch(*now, **case)
            check.ok(what, status == 2 and word in said, (status, said))


def test_lists_of_parts_name_versions_of_debian(check):
    """tests/tools/sbom: the sources of pai-runtime with Debian's versions, and the libraries that a package needs."""
    with open(f"{ROOT}/runtime-assets/sources/SHA256SUMS", encoding="ascii") as f:
        files = {line.split()[1].split("_")[0]: (line.split()[1].split("_")[1].split(".orig")[0], line.split()[0]) for line in f}
    with open(f"{ROOT}/runtime-assets/sources/versions", encoding="ascii") as f:
        versions = {line.split()[0]: line.split()[1] for line in f if not line.startswith("#")}
    check.equal("the sources", {name: version.split(":")[-1].rsplit("-", 1)[0] for name, version in versions.items()},
                {name: version for name, (version, _) in files.items()})
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/DEBIAN")
        with open(f"{folder}/DEBIAN/control", "w", encoding="ascii") as f:
            f.write("Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\nDepends: libc6 (>= 2.34), no-such-package | tar\n")
        subprocess.run(["dpkg-deb", "-b", folder, f"{folder}.deb"], check=True, capture_output=True)
        done = subprocess.run([f"{ROOT}/tests/tools/sbom", "deb", "1.0", f"{folder}.deb"], stdout=subprocess.PIPE, text=True, check=False)
        os.unlink(f"{folder}.deb")
    check.equal("it ends well", done.returncode, 0)
    found = {part["name"]: part for part in json.loads(done.stdout)["components"]}
    check.equal("their versions", {name: found[name]["version"] for name in files}, versions)
    check.equal("their hashes", {name: found[name]["hashes"][0]["content"] for name in files}, {name: digest for name, (_, digest) in files.items()})
    with tempfile.TemporaryDirectory() as folder:
        for path in "tests/tools/sbom", "runtime-assets/sources/SHA256SUMS", "runtime-assets/sources/versions":
            os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
            shutil.copy(f"{ROOT}/{path}", f"{folder}/{path}")
        os.mkdir(f"{folder}/packaging")
        with open(f"{folder}/packaging/portable.sources", "w", encoding="ascii") as f:
            f.write("# SHA-256, file, suite, version\nx  curl_7.88.1-1.debian.tar.xz  bookworm\ny  curl_7.88.1.orig.tar.gz  bookworm\n"
                    "z  libjwt_1.17.2.orig.tar.xz  sid  1.17.2-1\n")
        with open(f"{folder}/list", "w", encoding="ascii") as f:
            f.write("curl 7.88.1-1 source y\nlibjwt 1.17.2 source z\nlibgmp-dev 2:6.2.1 amd64 w\n")
        done = subprocess.run([f"{folder}/tests/tools/sbom", "portable", "1.0", f"{folder}/list"], stdout=subprocess.PIPE, text=True, check=True)
    inside = [(part["version"], part["purl"].split("?")[1], part["hashes"][0]["content"]) for part in json.loads(done.stdout)["components"][:3]]
    check.equal("the one file", inside, [("7.88.1-1", "arch=source&distro=bookworm", "y"), ("1.17.2-1", "arch=source&distro=sid", "z"),
                                         ("2:6.2.1", f"arch=amd64&distro={CODENAME}", "w")])
    libc = subprocess.run(["dpkg-query", "-W", "-f", "${Version} ${Architecture} ", "libc6"], stdout=subprocess.PIPE, text=True, check=True).stdout
    check.ok("libraries", found["libc6"]["version"] in libc and {"musl", *files, "libc6"} == set(found), (found, libc))


TESTS = [test_interrupted_release_has_the_same_bytes, test_release_is_refused_with_the_reason, test_later_versions_of_parts_are_found,
         test_lists_of_parts_name_versions_of_debian]
