"""Common part of the authentication tests: a server that requires tokens, with a fake API
server."""
import json
import shutil
import tempfile

from fakeapi import FakeApi
from harness import job_v2
from openpai import tokens_object
from slow import fake_server
from tokens import SECRET, write_file

SIGNATURE = ("--token-check", "signature")
STORED = ("--token-check", "stored")
NO_LIMITS = ("--rate-address", "0", "--rate-submit", "0", "--connections-per-address", "0")


def with_tokens(api, directory, *arguments, secret=SECRET, **more):
    """rest-lit with this API server and required tokens."""
    secret_file = write_file(directory, "jwt-secret", secret)
    return fake_server(api, "--jwt-secret-file", secret_file, *NO_LIMITS, *arguments, who=[],
                       **more)


class Place:
    """A context manager: an API server, a directory for files, and servers."""

    def __init__(self):
        self.api = FakeApi()
        self.directory = tempfile.mkdtemp(prefix="rest-lit-auth.")
        self.servers = []

    def server(self, *arguments, **more):
        self.servers.append(with_tokens(self.api, self.directory, *arguments, **more))
        return self.servers[-1]

    def secret_file(self):
        return write_file(self.directory, "jwt-secret", SECRET)

    def store(self, user, *tokens):
        with self.api.lock:
            self.api.put("secrets", tokens_object(user, tokens))

    def asked(self, path):
        """Number of these requests to the API server."""
        with self.api.lock:
            return sum(1 for r in self.api.requests if path in r[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.remove()
        self.api.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def submit(server, name, headers):
    return server.submit(job_v2(name), {"Content-Type": "text/yaml", **headers})


def events(server, message, n=0):
    """Log lines with this message, after there are `n` of them."""
    return [json.loads(line) for line in server.logged(f'"msg":{json.dumps(message)}', n)]


def requests(server, status, n):
    """Log lines of requests with this status, after there are this many."""
    return [json.loads(line) for line in server.logged(
        lambda line: '"msg":"request",' in line and f'"status":{status},' in line, n)]
