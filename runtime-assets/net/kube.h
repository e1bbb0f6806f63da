#pragma once
/*
 * The API server as a pod sees it.  With a mounted service account: its token (read anew before
 * every request, for it rotates), its CA, the address in KUBERNETES_SERVICE_HOST and _PORT, and
 * the name kubernetes.default.svc in the certificate, whatever else the environment says; but
 * where KUBE_APISERVER_ADDRESS is https://NAME, that is the name in the certificate.
 * Without one: KUBE_APISERVER_ADDRESS, http or https, no token.
 *
 * KUBECONFIG, HOME and proxies are not looked at: an image could set them.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/http.h"

/* Group and plural of Frameworks, as RBAC and kubectl want it. */
#define FRAMEWORKS "frameworks.frameworkcontroller.microsoft.com"

struct kube;

/* NULL and *e (nothing to connect to, CA unreadable): permanent, no use in trying again. */
struct kube *kube_open(const struct layout *at, struct err *e);
void kube_free(struct kube *k);

/* GET a path of the API.  0 with any status, or an enum http_trouble and *e.  A token file that
 * holds no token is HTTP_BAD_REQUEST; nothing was sent then. */
int kube_get(struct kube *k, const char *path, size_t body_max, int64_t deadline_ms,
             struct arena *a, struct http_reply *r, struct err *e);

/* For messages: "https://10.0.0.1:443 (kubernetes.default.svc)"; borrowed. */
const char *kube_address(const struct kube *k);
/* The same without the name. */
const char *kube_url(const struct kube *k);
/* What to look at when the answer is 401 or 403, or when the token file is of no use (status 0):
 * service account, token file and its age, RBAC verb and resource; appends sentences. */
void kube_explain(const struct kube *k, int status, const char *path, struct str *out);

/* Files of the mounted service account; NULL if none is mounted.  Borrowed. */
const char *kube_token_file(const struct kube *k);
/* NULL with plain http. */
const char *kube_ca_file(const struct kube *k);
/* The name that must be in the certificate; NULL with plain http. */
const char *kube_server_name(const struct kube *k);

/* Path of a Framework, in the arena; NULL and *e if a name is none that Kubernetes knows. */
const char *kube_framework_path(const char *namespace_name, const char *name, struct arena *a,
                                struct err *e);

/* What an answer says: `404, frameworks... "x" not found`; appends, control characters removed. */
void kube_answer(const struct http_reply *r, struct str *out);
/* A 404 by which the API server says that this object is not there.  It answers 404 to all of a
 * resource, too: where its definition is missing, and for a moment after its own start. */
bool kube_says_missing(const struct http_reply *r, const char *name);

/* The two kubectl commands that give the right to get Frameworks in a namespace; a line each. */
void kube_grant(const struct kube *k, const char *namespace_name, const char *indent,
                struct str *out);

/*
 * The token of a service account.  What it says of itself is for messages only: nothing of it is
 * verified, and no part of the token itself ever stands in one.
 */
enum { TOKEN_MAX = 16384 };

/* Append the token in a file to `out`, which should be a STR_SECRET.  -1 and *e if there is none,
 * if it is longer than TOKEN_MAX, or has a character in it that could end a header line. */
int token_append(const char *file, struct str *out, struct err *e);

struct token_claims {
	const char *account, *namespace_name; /* of the service account; NULL: not said */
	int64_t issued_s, expires_s;          /* Unix time; 0: not said */
};

/* What is in the second part of a JWT; -1 if it is none.  Texts in the arena, with only the
 * characters of Kubernetes' names.  Pure. */
int token_claims(struct span jwt, struct arena *a, struct token_claims *out);

/* What the file and the token in it say: "service account default/runtime-account, expires in
 * 59 min, file written 35 s ago".  now_s is Unix time.  *c may be NULL; it and the text hold
 * what could be found out.  Never fails. */
void token_describe(const char *file, int64_t now_s, struct arena *a, struct token_claims *c,
                    struct str *out);

/* "35 s", "12 min", "3 h", "4 d". */
void duration_text(struct str *out, int64_t seconds);
