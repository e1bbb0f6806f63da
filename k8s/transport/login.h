#pragma once
/*
 * The API server's address and the credentials for it.  Private to k8s/; store.h has the part that
 * the server uses.
 *
 * Thread: any
 */
#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "jobs/store/store.h"
#include "k8s/http/curl.h"

/* Settings from a kubeconfig, the options or the pod's service account.  Texts live in an arena, or
 * are borrowed; NULL if not set.  At most one of each pair of file and data is set. */
struct login_source {
	const char *server, *namespace_name;
	const char *ca_file, *ca_data; /* PEM, as the other data */
	const char *token, *token_file;
	const char *cert_file, *cert_data;
	const char *key_file, *key_data;
	const char *from; /* static text for messages: "kubeconfig" */
};

/* -1 and *e (500) naming the file and the key.  The arena holds secrets then.  Thread: main. */
int kubeconfig_read(const char *file, const char *context, struct arena *a,
                    struct login_source *out, struct err *e);
/* dir: the directory with the service account's files.  Thread: main. */
int in_cluster_read(const char *dir, struct arena *a, struct login_source *out, struct err *e);

/* A certificate or key as a file in memory: libcurl with GnuTLS reads a CA from files only, and a
 * loop must not read from disk when it connects.  When the file on disk changes, the new content
 * replaces the old one under the same path, so handles need no change. */
struct login_pem {
	char *path; /* for libcurl: /proc/self/fd/N; NULL: not set */
	int fd;     /* -1: none */
	char *file; /* on disk; NULL: inline data, which does not change */
	char *used; /* the current content */
	char *seen; /* the content read last, if it differs; else NULL */
};

struct login {
	char *url; /* https://host:port, without a trailing slash */
	struct login_pem ca, cert, key;
	char *token_file; /* NULL if the token does not change */
	char *namespace_name, *describe;
	pthread_mutex_t lock; /* of the token */
	char *token;          /* NULL for none */
	unsigned version;     /* counts the tokens */
};

/* The Authorization header line of one user of a login.  Zero-initialized; str_wipe its line. */
struct login_header {
	struct str line;  /* empty without a token */
	unsigned version; /* of the token in it */
};

/* Updates the line if the token has changed; each thread has a header of its own. */
void login_header_refresh(struct login *l, struct login_header *h);

/* A handle for requests to the API server, with the login's CA and certificate.  NULL and *e (500).
 */
CURL *login_curl(const struct login *l, struct err *e);
/* Adds the login's Authorization, and sets all headers; each thread has an `own` of its own. */
void login_set_headers(CURL *h, struct curl_slist **headers, struct login *l,
                       struct login_header *own);
