#pragma once
/*
 * Certificates and keys as files in memory: libcurl's GnuTLS flavour takes no CA from memory
 * otherwise, and a loop must not read files when it connects.  A file that changes on disk is put
 * beneath the same path, so that no handle has to know.  Holds keys: pem_done wipes what it can.
 * Private to k8s/.
 */
#include <stdbool.h>

#include "base/err.h"

struct pem {
	char *path; /* for libcurl: /proc/self/fd/N; NULL: nothing */
	int fd;     /* -1: none */
	char *file; /* on disk; NULL: it was inline, and does not change */
	char *used; /* what is in memory */
	char *seen; /* what was read last, if that is something else; else NULL */
};
#define PEM_NONE ((struct pem){ .fd = -1 })

/* From a file or from inline data; neither: nothing.  -1 and *e (500). */
int pem_load(struct pem *p, const char *file, const char *data, struct err *e);
void pem_done(struct pem *p);

/*
 * Read the files of a login again.  What has changed is taken once all of them have been the same
 * at two calls in a row, and are whole: so neither half a file nor a certificate without its key
 * is.  true if something was taken.  One thread; others may open the paths meanwhile.
 */
bool pem_refresh(struct pem *const *all, size_t n);
