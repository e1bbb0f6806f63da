#include "server/config/system.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/fd.h"

/* These would make GnuTLS and libcurl write TLS keys to a file, libcurl send tokens through
 * proxies, OpenSSL load code or trust other certificates, and host names resolve to other hosts. */
static const char *const SCRUBBED[] = {
	"SSLKEYLOGFILE",   "http_proxy",    "https_proxy",  "HTTP_PROXY",       "HTTPS_PROXY",
	"all_proxy",       "ALL_PROXY",     "no_proxy",     "NO_PROXY",         "OPENSSL_CONF",
	"OPENSSL_MODULES", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_SSL_BACKEND", "OPENSSL_ENGINES",
	"HOSTALIASES",     "LOCALDOMAIN",
};

const char *process_scrub(void)
{
	const char *first = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(SCRUBBED); i++) {
		if (!getenv(SCRUBBED[i])) /* NOLINT(concurrency-mt-unsafe): no threads yet */
			continue;
		first = first ? first : SCRUBBED[i];
		(void)unsetenv(SCRUBBED[i]); /* NOLINT(concurrency-mt-unsafe): no threads yet */
	}
	return first;
}

/* Only this file knows how jansson allocates. */
void process_wipe_json(void)
{
	json_set_alloc_funcs(xmalloc, free_wiped);
}

void process_harden(void)
{
	/* Additional protection: errors are ignored. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	(void)umask(077);
	(void)signal(SIGPIPE, SIG_IGN);
}

int process_drop_capabilities(uint32_t keep, struct err *e)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &header, has) == 0)
		data[0].permitted = data[0].effective = has[0].permitted & keep;
	/* A program that is executed has no other capabilities because of NO_NEW_PRIVS: the
	 * bounding set does not matter. */
	if (syscall(SYS_capset, &header, data) == 0)
		return 0;
	return err_set(e, UNKNOWN_ERROR, "capset: %m");
}

size_t process_allow_files(size_t n)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return n;
	if (limit.rlim_cur < n) {
		limit.rlim_cur = limit.rlim_max < n ? limit.rlim_max : n;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* the result is read below */
		(void)getrlimit(RLIMIT_NOFILE, &limit); /* worked above */
	}
	return limit.rlim_cur;
}

static int system_read_all(int fd, const char *path, struct str *out, struct err *e)
{
	if (fd_read_all(fd, out) == 0)
		return 0;
	return out->full ? err_set(e, UNKNOWN_ERROR, "%s: more than %zu bytes", path, out->max)
	                 : err_set(e, UNKNOWN_ERROR, "%s: %m", path);
}

int file_read_or_stdin(const char *path, size_t max, char **text, size_t *n, struct err *e)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	STR_AUTO all = STR_INIT(max);
	int r = system_read_all(fd, path, &all, e);
	(void)close(fd); /* it was only read */
	if (r < 0)
		return -1;
	*n = all.n;
	*text = str_take(&all);
	return 0;
}

static int read_regular(int fd, const char *path, struct str *out, struct stat *st, struct err *e)
{
	struct stat after;
	if (fstat(fd, st) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, UNKNOWN_ERROR, "%s: not a regular file", path);
	/* One allocation, so that growing leaves no copies. */
	if ((uint64_t)st->st_size <= out->max)
		(void)str_reserve(out, (size_t)st->st_size);
	if (system_read_all(fd, path, out, e) < 0)
		return -1;
	if (fstat(fd, &after) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	if (st->st_size != after.st_size || st->st_mtim.tv_sec != after.st_mtim.tv_sec ||
	    st->st_mtim.tv_nsec != after.st_mtim.tv_nsec || (uint64_t)after.st_size != out->n)
		return err_set(e, UNKNOWN_ERROR, "%s: it changed while it was read", path);
	return 0;
}

int file_read_regular(const char *path, struct str *out, struct stat *st, struct err *e)
{
	/* A FIFO would make open() wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	int r = read_regular(fd, path, out, st, e);
	(void)close(fd); /* it was only read */
	return r;
}

const char *file_warning(const struct stat *st, bool secret)
{
	if (getenv("KUBERNETES_SERVICE_HOST")) /* NOLINT(concurrency-mt-unsafe): never set */
		return NULL;
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "it belongs to another user";
	if (st->st_mode & S_IWOTH)
		return "all users of this machine may change it";
	if (secret && (st->st_mode & S_IROTH))
		return "all users of this machine may read it, but it has secrets";
	return NULL;
}
