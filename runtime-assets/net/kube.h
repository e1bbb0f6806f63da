#pragma once
/*
 * The API server as a pod sees it.  If a service account is mounted: its token (read before every
 * request, because it rotates), its CA, the address in KUBERNETES_SERVICE_HOST and _PORT, and the
 * name kubernetes.default.svc in the certificate, or NAME if KUBE_APISERVER_ADDRESS is
 * https://NAME. Else: KUBE_APISERVER_ADDRESS, http or https, no token.
 *
 * KUBECONFIG, HOME and proxies are ignored: an image could set them.
 *
 * Thread: main
 */
#include "base/doc/tree.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/net/http.h"

/* Group and plural of Frameworks, for RBAC and kubectl. */
#define FRAMEWORKS "frameworks.frameworkcontroller.microsoft.com"

/* Read-only for callers. */
struct kube {
	struct url_address to;
	struct ca_bundle *ca_bundle;
	const char *server_name; /* in the certificate; NULL with http */
	const char *token, *ca;  /* files; NULL: requests are anonymous, http */
	const char *url;         /* "https://10.0.0.1:443" */
	const char *address;     /* "https://10.0.0.1:443 (kubernetes.default.svc)" */
	struct arena *a;         /* has all of these, but for ca_bundle */
};

/* Opens it in the arena.  NULL and *e (no address, CA unreadable): permanent. */
struct kube *kube_open(const struct layout *at, struct arena *a, struct err *e);
void kube_free(struct kube *k);

/* GET of a path.  0 with any status, or an enum http_trouble and *e; HTTP_BAD_REQUEST if the token
 * file has no token. */
int kube_get(struct kube *k, const char *path, size_t body_max, int64_t deadline_ms,
             struct arena *a, struct http_reply *r, struct err *e);

#define KUBE_NOT_TAKEN                                                                             \
	"does not take the token: it has expired, its service account or pod is gone, or it is "   \
	"one of another cluster."
/* Appends advice after 401, 403, or an unusable token file (status 0). */
void kube_explain(const struct kube *k, int status, const char *path, struct str *out);

/* Path of a Framework, in the arena; NULL and *e if a name is not valid in Kubernetes. */
const char *kube_framework_path(const char *namespace_name, const char *name, struct arena *a,
                                struct err *e);

/* The root of a small JSON text, in the arena; NULL: it is none.  Pure. */
const struct node *kube_json(struct span text, struct arena *a);

/* Appends an answer: `404, frameworks... "x" not found`, control characters removed. */
void kube_answer(const struct http_reply *r, struct str *out);
/* Returns true if a 404 means that this object does not exist.  The API server also answers 404 if
 * the resource is not defined, and shortly after its own start. */
bool kube_says_missing(const struct http_reply *r, const char *name);

/* The claims of a token are not verified and only for messages, which never contain a part of the
 * token. */
struct token_claims {
	const char *account, *namespace_name; /* of the service account; NULL: absent */
	int64_t expires_s;                    /* Unix time; 0: absent */
};

/* The claims of a JWT; -1 if it is not one.  Texts in the arena, valid Kubernetes names.  Pure. */
int token_claims(struct span jwt, struct arena *a, struct token_claims *out);

/* Appends "service account default/runtime-account, expires in 59 min, file written 35 s ago", and
 * sets *c, with texts in the arena.  Never fails. */
void token_describe(const char *file, int64_t now_s, struct arena *a, struct token_claims *c,
                    struct str *out);

/* "35 s", "12 min", "3 h", "4 d". */
void duration_in_words(struct str *out, int64_t seconds);
