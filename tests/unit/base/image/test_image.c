/* References of images: against what was recorded of the reference (tests/data/runtime/registry)
 * and what must be different here. */
#include "base/image/image.h"

#include "base/doc/tree.h"
#include "tests/unit/base/cmocka.h"

#define REGISTRY_FOLDER "tests/data/runtime/registry/"

struct vectors {
	struct arena a;
	struct doc recorded, expected;
};

static void load(const char *path, struct arena *a, struct doc *doc)
{
	assert_int_equal(doc_read(unit_read(path), &BUDGET_DEFAULT, a, doc, NULL, no_err()), 0);
}

static int set_up(void **state)
{
	struct vectors *v = xcalloc(1, sizeof(*v));
	load(REGISTRY_FOLDER "registry.json", &v->a, &v->recorded);
	load(REGISTRY_FOLDER "expected.json", &v->a, &v->expected);
	*state = v;
	return 0;
}

static int tear_down(void **state)
{
	struct vectors *v = *state;
	arena_done(&v->a);
	free_cleanup(state);
	return 0;
}

static struct span text_of(const struct node *n, const char *key)
{
	const struct node *t = node_get(n, key);
	return node_is(t, NODE_TEXT) ? node_span(t) : SPAN("");
}

/* The entry of this list with the same text under `key`, as it must be here; or as recorded. */
static const struct node *wanted(const struct vectors *v, const char *list, const char *key,
                                 const struct node *recorded)
{
	const struct node *all = node_get(&v->expected.root, list);
	for (uint32_t i = 0; i < all->n; i++) {
		if (span_eq(text_of(&all->item[i], key), text_of(recorded, key)))
			return &all->item[i];
	}
	return recorded;
}

static const struct node *recorded_list(const struct vectors *v, const char *name)
{
	return node_get(&v->recorded.root, name);
}

static void assert_text(struct span got, struct span want)
{
	if (!span_eq(got, want))
		fail_msg("\"%.*s\" instead of \"%.*s\"", (int)got.n, got.p, (int)want.n, want.p);
}

/* ---- the recorded cases ---------------------------------------------------------------- */

TEST(test_image_parse_gives_the_recorded_results)
{
	struct vectors *v = *state;
	const struct node *all = recorded_list(v, "normalisation");
	for (uint32_t i = 0; i < all->n; i++) {
		const struct node *want = wanted(v, "normalisation", "uri", &all->item[i]);
		struct image image;
		int bad = image_parse(text_of(want, "uri"), &v->a, &image);
		if (text_of(want, "error").n) {
			assert_int_equal(bad, -1);
			continue;
		}
		if (bad)
			fail_msg("%.*s is refused", (int)text_of(want, "uri").n,
			         text_of(want, "uri").p);
		char *url = arena_printf(&v->a, "https://%s/v2/", image.host);
		assert_text(span_of(url), text_of(want, "registry"));
		assert_text(span_of(image.repository), text_of(want, "repo"));
		assert_text(span_of(image.reference), text_of(want, "tag"));
	}
	assert_int_equal(all->n, 28);
}

/* ---- names -------------------------------------------------------------------------------- */

TEST(test_image_host_ok_takes_names_and_addresses_with_ports)
{
	static const char *const GOOD[] = { "h",        "h:1",        "A.b-c_d:65535",
		                            "10.0.0.1", "[::1]:5000", "[fe80::1]",
		                            NULL };
	static const char *const BAD[] = {
		"",        ":1",     "h:",  "h:0",   "h:65536", "h:x",    "u@h",
		"-h",      "h-",     "h/",  "[::1",  "[]",      "[abc]",  "::1",
		"[::g]:1", "[::1]5", "a b", "h:1:2", "h\n",     "[::1]:", NULL
	};
	for (const char *const *s = GOOD; *s; s++)
		if (!image_host_ok(span_of(*s)))
			fail_msg("%s is refused", *s);
	for (const char *const *s = BAD; *s; s++)
		if (image_host_ok(span_of(*s)))
			fail_msg("%s is taken", *s);
}

/* ---- refusals ---- */

#define PULLS    "failed to pull and unpack image \"docker.io/a/b:1\": "
#define RESOLVES PULLS "failed to resolve reference \"docker.io/a/b:1\": "
#define FAILED   "Failed to pull image \"a/b:1\": rpc error: code = Unknown desc = "

static const char *const REFUSED[] = {
	/* containerd */
	"Failed to pull image \"a/b:1\": rpc error: code = NotFound desc = " RESOLVES
	"docker.io/a/b:1: not found",
	"Failed to pull image \"a/b:1\": " RESOLVES "docker.io/a/b:1: not found",
	FAILED RESOLVES "pull access denied, repository does not exist or may require "
			"authorization: server message: insufficient_scope: authorization failed",
	FAILED RESOLVES "failed to authorize: failed to fetch anonymous token: unexpected "
			"status: 401 Unauthorized",
	FAILED RESOLVES "failed to authorize: failed to fetch oauth token: denied: "
			"Permission \"downloadArtifacts\" denied on resource \"x\"",
	FAILED RESOLVES "pull access denied, repository does not exist or may require "
			"authorization: authorization failed: no basic auth credentials",
	FAILED PULLS "no match for platform in manifest: not found",
	/* CRI-O, skopeo */
	FAILED "reading manifest 1 in docker.io/a/b: manifest unknown",
	FAILED "initializing source docker://reg.io/a:1: reading manifest 1 in reg.io/a: "
	       "name unknown: repository name not known to registry",
	FAILED "reading manifest 1 in docker.io/a/b: errors:\ndenied: requested access to "
	       "the resource is denied\nunauthorized: authentication required\n",
	FAILED "reading manifest 1 in quay.io/a/b: unauthorized: access to the requested "
	       "resource is not authorized",
	FAILED "unable to retrieve auth token: invalid username/password: unauthorized: "
	       "incorrect username or password",
	/* Docker */
	FAILED "Error response from daemon: pull access denied for a/b, repository does "
	       "not exist or may require 'docker login': denied: requested access to the "
	       "resource is denied",
	FAILED "Error response from daemon: manifest for a/b:1 not found: manifest "
	       "unknown: manifest unknown",
	FAILED "Error response from daemon: Get \"https://reg.io/v2/\": no basic auth "
	       "credentials",
	/* the kubelet */
	"Failed to apply default image tag \"a:1:2\": couldn't parse image name "
	"\"a:1:2\": invalid reference format",
	"Failed to apply default image tag \"A\": couldn't parse image reference \"A\": "
	"invalid reference format: repository name must be lowercase",
};

static const char *const OTHER[] = {
	"",
	"Error: ErrImagePull",
	"Error: ImagePullBackOff",
	"Back-off pulling image \"a/b:1\"",
	FAILED PULLS "failed to copy: httpReadSeeker: failed open: unexpected status code "
		     "https://registry-1.docker.io/v2/a/b/manifests/sha256:42: 429 Too Many "
		     "Requests - Server message: toomanyrequests: You have reached your "
		     "unauthenticated pull rate limit",
	FAILED "Error response from daemon: toomanyrequests: Rate exceeded",
	FAILED RESOLVES "failed to do request: Head \"https://reg.io/v2/a/manifests/1\": "
			"dial tcp: lookup reg.io on 10.96.0.10:53: no such host",
	FAILED RESOLVES "failed to do request: Head \"https://reg.io/v2/a/manifests/1\": "
			"dial tcp 10.0.0.5:443: i/o timeout",
	FAILED RESOLVES "failed to do request: Head \"https://reg.io/v2/a/manifests/1\": "
			"dial tcp 10.0.0.5:443: connect: connection refused",
	FAILED RESOLVES "failed to do request: Head \"https://reg.io/v2/a/manifests/1\": "
			"net/http: TLS handshake timeout",
	FAILED RESOLVES "unexpected status from HEAD request to "
			"https://reg.io/v2/a/manifests/1: 503 Service Unavailable",
	FAILED RESOLVES "failed to authorize: failed to fetch oauth token: unexpected "
			"status: 500 Internal Server Error",
	FAILED RESOLVES "failed to authorize: failed to fetch anonymous token: unexpected "
			"status: 403 Forbidden",
	FAILED "context deadline exceeded",
	"Failed to pull image \"a/b:1\": rpc error: code = DeadlineExceeded desc = "
	"context deadline exceeded",
	FAILED RESOLVES "failed to do request: Head \"https://reg.io/v2/\": tls: failed to "
			"verify certificate: x509: certificate signed by unknown authority",
	FAILED PULLS "failed to extract layer sha256:42: write /var/lib/x: no space left "
		     "on device",
	/* of the node */
	FAILED PULLS "failed to extract layer sha256:42: failed to get reader from content "
		     "store: content digest sha256:43: not found",
	FAILED "connection error: desc = \"transport: error while dialing: dial unix "
	       "/run/containerd.sock: connect: permission denied\"",
	FAILED "error getting credentials - err: exec: \"docker-credential-x\": executable "
	       "file not found in $PATH",
	/* the image is on one mirror of two, or has a name like this */
	FAILED "initializing source docker://reg.io/a:1: (Mirrors also failed: [mirror/a:1: "
	       "reading manifest 1 in mirror/a: manifest unknown]): reg.io/a:1: pinging "
	       "container registry reg.io: Get \"https://reg.io/v2/\": dial tcp: lookup "
	       "reg.io: i/o timeout",
	"Failed to pull image \"reg.io/unauthorized/denied:1\": rpc error: code = Unknown "
	"desc = unexpected EOF",
};

TEST(test_image_is_refused_tells_final_errors_from_others)
{
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++)
		if (!image_is_refused(span_of(REFUSED[i])))
			fail_msg("goes on: %s", REFUSED[i]);
	for (size_t i = 0; i < ARRAY_SIZE(OTHER); i++)
		if (image_is_refused(span_of(OTHER[i])))
			fail_msg("is final: %s", OTHER[i]);
}

TEST_GROUP(set_up, tear_down)
