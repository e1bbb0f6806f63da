/* Reads files whole, also those that are being replaced, and takes rights and variables from the
 * process. */
#include "server/config/system.h"

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

int file_read_or_stdin(const char *path, size_t max, char **text, size_t *n, struct err *e)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	STR_AUTO all = STR_INIT(max);
	int r = fd_read_named(fd, path, &all, e);
	(void)close(fd); /* it was only read */
	if (r < 0)
		return -1;
	*n = all.n;
	*text = str_take(&all);
	return 0;
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
