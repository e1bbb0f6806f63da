#pragma once
/* Where the API server is and how to log in: what k8s/ itself knows of it.  Private to k8s/. */
#include <pthread.h>

#include "k8s/transport/pem.h"
#include "k8s/transport/store.h"

/*
 * What a kubeconfig, the options or a pod say.  All texts owned, NULL if not said.
 * Of each pair of file and data at most one is set.  Holds secrets: source_done wipes them.
 */
struct login_source {
	char *server, *namespace_name;
	char *ca_file, *ca_data; /* PEM, as the other data */
	char *token, *token_file;
	char *cert_file, *cert_data;
	char *key_file, *key_data;
	const char *from; /* static text, for login_describe: "kubeconfig" */
};

void source_done(struct login_source *s);
#define SOURCE_AUTO __attribute__((cleanup(source_done))) struct login_source

/* -1 and *e (500) naming the file and the key. */
int kubeconfig_read(const char *file, const char *context, struct login_source *out, struct err *e);
/* dir: where the service account's files are. */
int in_cluster_read(const char *dir, struct login_source *out, struct err *e);

struct login {
	char *url; /* https://host:port, without a slash at the end */
	struct pem ca, cert, key;
	char *token_file; /* NULL if the token does not change */
	char *namespace_name, *describe;
	pthread_mutex_t lock; /* of the token */
	char *token;          /* NULL for none */
	unsigned version;     /* counts the tokens */
};

/* The Authorization header line, if the token is another than that of *version; then
 * *version changes.  false if it is the same.  Nothing is written if there is no token.
 * Any thread. */
bool login_header(struct login *l, unsigned *version, struct str *out);

/* A whole small file: a regular one, at most 1 MiB.  malloc'ed text without NUL inside, or
 * NULL and *e. */
char *file_text(const char *path, struct err *e);

/* "https://host[:port][/path]" without white space around it and slashes at the end.  Plain http:
 * if secrets will be told, only to this machine.  malloc'ed, or NULL and *fault, static text. */
char *address_read(const char *text, bool secrets, const char **fault);
/* The same, of an API server.  NULL and *e (500). */
char *address_check(const char *server, struct err *e);
