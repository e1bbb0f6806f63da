"""A server for those who have a token, before a make-believe API server: what the tests of
authentication share."""
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
    """rest-lit for those who have a token, before this API server."""
    secret_file = write_file(directory, "jwt-secret", secret)
    return fake_server(api, "--jwt-secret-file", secret_file, *NO_LIMITS, *arguments, who=[],
                       **more)


class Place:
    """An API server, a directory for files, and servers, for a `with`."""

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
        """How often this was asked of the API server."""
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
    """Lines of the log with this message, when there are `n` of them."""
    return [json.loads(line) for line in server.logged(f'"msg":{json.dumps(message)}', n)]


def requests(server, status, n):
    """The log's lines of requests with this status, when there are so many."""
    return [json.loads(line) for line in server.logged(
        lambda line: '"msg":"request",' in line and f'"status":{status},' in line, n)]
