#pragma once
/*
 * The API server as a pod sees it.  With a mounted service account: its token (read anew before
 * every request, for it rotates), its CA, the address in KUBERNETES_SERVICE_HOST and _PORT, and
 * the name kubernetes.default.svc in the certificate, whatever else the environment says.
 * Without one: KUBE_APISERVER_ADDRESS, http or https, no token.
 */
#include "runtime-assets/http.h"
#include "runtime-assets/layout.h"

struct kube;

/* NULL and *e (nothing to connect to, CA unreadable): permanent, no use in trying again. */
struct kube *kube_open(const struct layout *at, struct err *e);
void kube_free(struct kube *k);

/* GET a path of the API.  0 with any status, or an enum http_trouble and *e. */
int kube_get(struct kube *k, const char *path, size_t body_max, int64_t deadline_ms, struct arena *a,
             struct http_reply *r, struct err *e);

/* For messages: "https://10.0.0.1:443 (kubernetes.default.svc)"; borrowed. */
const char *kube_address(const struct kube *k);
/* What to look at when the answer is 401 or 403: service account, token file and its age, RBAC
 * verb and resource; appends sentences. */
void kube_explain(const struct kube *k, int status, const char *path, struct str *out);
