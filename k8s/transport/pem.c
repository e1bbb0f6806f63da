/* PEM files in memory; see pem.h. */
#include "k8s/transport/pem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/enc.h"
#include "k8s/transport/login.h"

static const char BEGIN[] = "-----BEGIN ";
static const char END[] = "-----END ";

static void free_secret(char **text)
{
	if (*text != NULL)
		wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

/* A file that nobody else can name; -1 and errno. */
static int memory_file(struct span rest)
{
	int fd = memfd_create("rest-lit", MFD_CLOEXEC);
	while (fd >= 0 && rest.n > 0) {
		ssize_t n = write(fd, rest.p, rest.n);
		if (n <= 0) {
			(void)close(fd);
			return -1;
		}
		rest.p += n;
		rest.n -= (size_t)n;
	}
	return fd;
}

int pem_load(struct pem *p, const char *file, const char *data, struct err *e)
{
	*p = PEM_NONE;
	if (file == NULL && data == NULL)
		return 0;
	const char *what = file ? file : "inline data of the kubeconfig";
	p->used = file ? file_text(file, e) : xstrdup(data);
	if (p->used == NULL)
		return -1;
	if (strstr(p->used, BEGIN) == NULL)
		return err_set(e, UNKNOWN_ERROR, "%s: is not in the PEM format", what);
	p->fd = memory_file(span_of(p->used));
	if (p->fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: no memory file: %s", what,
		               strerrordesc_np(errno));
	p->path = xasprintf("/proc/self/fd/%d", p->fd);
	p->file = file ? xstrdup(file) : NULL;
	return 0;
}

void pem_done(struct pem *p)
{
	if (p->fd >= 0)
		(void)close(p->fd); /* lives in memory */
	free(p->path);
	free(p->file);
	free_secret(&p->used);
	free_secret(&p->seen);
	*p = PEM_NONE;
}

/* ---- changes ----------------------------------------------------------------------- */

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	while ((text = strstr(text, what)) != NULL) {
		text += strlen(what);
		n++;
	}
	return n;
}

static bool is_whole(const char *text)
{
	return count(text, BEGIN) > 0 && count(text, BEGIN) == count(text, END);
}

/* Look at the file; false if it is not as it was when looked at last, or cannot be used. */
static bool is_steady(struct pem *p)
{
	ERR_AUTO ignored = { 0 };
	if (p->file == NULL)
		return true;
	char *now = file_text(p->file, &ignored);
	const char *last = p->seen ? p->seen : p->used;
	bool steady = now != NULL && strcmp(now, last) == 0 && is_whole(now);
	if (now == NULL || strcmp(now, p->used) == 0) {
		free_secret(&now);
		free_secret(&p->seen);
	} else {
		free_secret(&p->seen);
		p->seen = now;
	}
	return steady;
}

/* Put it beneath the path, in one step for whoever opens that. */
static bool take(struct pem *p)
{
	int fd = memory_file(span_of(p->seen));
	bool taken = fd >= 0 && dup3(fd, p->fd, O_CLOEXEC) >= 0;
	if (fd >= 0)
		(void)close(fd);
	if (taken) {
		free_secret(&p->used);
		p->used = TAKE(p->seen);
	}
	return taken;
}

bool pem_refresh(struct pem *const *all, size_t n)
{
	bool steady = true;
	bool taken = false;
	for (size_t i = 0; i < n; i++)
		steady &= is_steady(all[i]);
	for (size_t i = 0; i < n && steady; i++) {
		if (all[i]->seen != NULL)
			taken |= take(all[i]);
	}
	return taken;
}
