"""Common part of the authentication tests: a server that requires tokens, with a fake API
server."""
import json

from fakeapi import Scene, fake_server
from harness import job_v2
from openpai import tokens_object
from tokens import SECRET, write_file

SIGNATURE = ("--token-check", "signature")
STORED = ("--token-check", "stored")
NO_LIMITS = ("--rate-address", "0", "--rate-submit", "0", "--connections-per-address", "0")


def with_tokens(api, directory, *arguments, secret=SECRET, **more):
    """rest-lit with this API server and required tokens."""
    secret_file = write_file(directory, "jwt-secret", secret)
    return fake_server(api, "--jwt-secret-file", secret_file, *NO_LIMITS, *arguments, who=[],
                       **more)


class Place(Scene):
    """An API server, a directory for files, and servers that require tokens."""

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


def submit(server, name, headers):
    return server.submit(job_v2(name), {"Content-Type": "text/yaml", **headers})


def events(server, message, n=0):
    """Log lines with this message, after there are `n` of them."""
    return [json.loads(line) for line in server.logged(f'"msg":{json.dumps(message)}', n)]


def requests(server, status, n):
    """Log lines of requests with this status, after there are this many."""
    return [json.loads(line) for line in server.logged(
        lambda line: '"msg":"request",' in line and f'"status":{status},' in line, n)]
