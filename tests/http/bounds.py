"""Memory for jobs is limited; requests beyond the limits still work."""
import random

from details import SPECS, put, renamed, same, snapshot, warm
from detail_reference import Detail
from fakeapi import FakeApi, fake_server
from harness import SLOW, Server, framework_name, wait_until


def large(job):
    """A Framework that compresses badly."""
    framework = renamed(snapshot("06"), job)
    noise = random.Random(job)
    framework["metadata"]["annotations"]["config"] = "".join(noise.choices("abcdefghijklmnop0123456789", k=20000))
    return framework


def test_details_beyond_cache_memory_are_fetched(check):
    """Beyond --cache-memory, lists are complete, and details come from the API server."""
    api = FakeApi()
    jobs = [f"large{i}" for i in range(200)]
    with fake_server(api, "--cache-memory", "1MiB") as server:
        warm(server)
        for job in jobs[:-1]:
            api.put("frameworks", large(job))
        kept = put(api, large(jobs[-1]))
        path = "/api/v2/jobs?withTotalCount=true&limit=0"
        check.ok("all are listed", wait_until(lambda: server.request("GET", path).json["totalCount"] == 200))
        before = api.count("GET", "frameworks/")
        same(check, "one in full", Detail(kept, SPECS).whole(), server.request("GET", f"/api/v2/jobs/alice~{jobs[-1]}"))
        check.equal("... was asked for", api.count("GET", "frameworks/"), before + 1)
        first = api.objects["frameworks", framework_name(jobs[0])]
        same(check, "an early one", Detail(first, SPECS).whole(), server.request("GET", f"/api/v2/jobs/alice~{jobs[0]}"))
        check.equal("... was known", api.count("GET", "frameworks/"), before + 1)


def half_a_body(server, announced, sent):
    """A connection with the first bytes of a job."""
    c = server.connect()
    c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: text/yaml\r\n"
           b"Content-Length: %d\r\n\r\n" % (server.port, announced) + b"#" * sent)
    return c


def test_announced_but_missing_bodies_use_no_memory(check):
    """A body uses memory for received bytes, not for its Content-Length."""
    n, announced = 1000, 100000
    with Server("--engine=none", "--local", "jobs", "--loops", "1", "--read-timeout", "600") as server:
        crowd = [half_a_body(server, announced, 1) for _ in range(n)]
        check.equal("beside them others are served", server.request("GET", "/healthz").status, 200)
        before = server.rss_kib()
        for c in crowd:
            c.close()
        check.ok("all have ended", server.logged(lambda line: '"code":"ClientGone"' in line, n))
        grown = server.rss_kib() - before
        check.ok("nothing was touched that had not come", grown < n * announced // 1024 // 4 * SLOW, f"{grown} KiB")


def test_memory_of_incomplete_bodies_is_freed(check):
    """The memory of incomplete bodies is freed when their clients disconnect."""
    with Server("--engine=none", "--local", "jobs", "--loops", "1", "--read-timeout", "600") as server:
        before = server.rss_kib()
        crowd = [half_a_body(server, 100000, 99990) for _ in range(600)]
        held = wait_until(lambda: server.rss_kib() - before > 40000)
        check.ok("they are held", held, server.rss_kib() - before)
        for c in crowd:
            c.close()
        if SLOW == 1:  # sanitizers keep what is freed
            check.ok("... and given back", wait_until(lambda: server.rss_kib() - before < 25000), server.rss_kib() - before)


def test_incomplete_bodies_share_a_memory_limit(check):
    """Incomplete bodies use at most 64 MiB in total; further ones get 503 and use no memory."""
    size, sent = 15 << 20, 12 << 20
    with Server("--engine=none", "--local", "jobs", "--loops", "1", "--read-timeout", "600", "--max-body", "16MiB") as server:
        crowd = [half_a_body(server, size, sent) for _ in range(5)]
        check.equal("others are served", server.request("GET", "/healthz").status, 200)
        for c in crowd:
            c.send(b"#" * (size - sent))
        replies = [c.reply() for c in crowd]
        for c in crowd:
            c.close()
        statuses = sorted(r.status if r else 0 for r in replies)
        # A body that consists of a comment is not a job: 400.
        check.equal("four have room", statuses, [400] * 4 + [503])
        refused = [r for r in replies if r and r.status == 503]
        check.ok("when to come again", all(r.headers.get("retry-after") for r in refused), refused)
        check.equal("then there is room", server.submit(b"#" * size).status, 400)
