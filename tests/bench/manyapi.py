#!/usr/bin/env python3
"""A fake API server with many Frameworks (many.py).

    manyapi.py PORT N [NEWEST]

NEWEST: the time of the newest one, in seconds since 1970.  It supports LIST in pages, generated on the first request, and WATCH without events; all else is
404."""
import http.server
import os
import sys
import time
from urllib.parse import parse_qs, urlsplit

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import many

if len(sys.argv) > 3:
    many.NEWEST = int(sys.argv[3])
MANY = many.Many()
N = int(sys.argv[2])
PAGE = 500
PAGES = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def list(self, query, frameworks):
        first = int(query.get("continue", ["0"])[0])
        end = min(first + int(query.get("limit", [PAGE])[0]), N) if frameworks else 0
        more = f',"continue":"{end}"' if frameworks and end < N else ""
        if (first, end) not in PAGES:
            items = ",".join(MANY.framework(i) for i in range(first, end))
            PAGES[first, end] = f'{{"kind":"List","metadata":{{"resourceVersion":"{2 * N}"{more}}},"items":[{items}]}}'
        self.answer(200, PAGES[first, end])

    def watch(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        time.sleep(86400)

    def do_GET(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if not url.path.endswith(("/frameworks", "/events")):
            return self.answer(404, '{"kind":"Status","status":"Failure","reason":"NotFound","code":404}')
        if "sendInitialEvents" in query:
            return self.answer(422, '{"kind":"Status","status":"Failure","reason":"Invalid","code":422}')
        if "watch" in query:
            return self.watch()
        # No Framework has the labels that the janitor selects.
        return self.list(query, url.path.endswith("/frameworks") and "labelSelector" not in query)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
