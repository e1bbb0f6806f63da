#include "server/process.h"

#include <errno.h>
#include <jansson.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/enc.h"

/* GnuTLS and libcurl would write TLS keys to the first, and libcurl send tokens through the
 * proxies; OpenSSL would load code, and trust others; names of hosts would mean other ones. */
static const char *const SCRUBBED[] = {
	"SSLKEYLOGFILE",   "http_proxy",    "https_proxy",  "HTTP_PROXY",       "HTTPS_PROXY",
	"all_proxy",       "ALL_PROXY",     "no_proxy",     "NO_PROXY",         "OPENSSL_CONF",
	"OPENSSL_MODULES", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_SSL_BACKEND", "OPENSSL_ENGINES",
	"HOSTALIASES",     "LOCALDOMAIN",
};

const char *process_scrub(void)
{
	const char *first = NULL;
	for (size_t i = 0; i < sizeof(SCRUBBED) / sizeof(SCRUBBED[0]); i++) {
		if (!getenv(SCRUBBED[i])) /* NOLINT(concurrency-mt-unsafe): no threads yet */
			continue;
		first = first ? first : SCRUBBED[i];
		(void)unsetenv(SCRUBBED[i]); /* NOLINT(concurrency-mt-unsafe): its name is fine */
	}
	return first;
}

void process_wipe_json(void)
{
	json_set_alloc_funcs(xmalloc, free_wiped);
}

void process_harden(void)
{
	/* Each is a second line of defence: where the kernel refuses, go on. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	(void)umask(077);
	(void)signal(SIGPIPE, SIG_IGN);
}

int process_drop_capabilities(bool low_port, struct err *e)
{
	char text[128];
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &header, has) == 0 && low_port)
		data[0].permitted = data[0].effective =
		    has[0].permitted & (1u << CAP_NET_BIND_SERVICE);
	/* NO_NEW_PRIVS is set, and nothing is executed: the bounding set does not matter. */
	if (syscall(SYS_capset, &header, data) == 0)
		return 0;
	return err_set(e, UNKNOWN_ERROR, "capset: %s", strerror_r(errno, text, sizeof(text)));
}

size_t process_allow_files(size_t n)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return n;
	if (limit.rlim_cur < n) {
		limit.rlim_cur = limit.rlim_max < n ? limit.rlim_max : n;
		(void)setrlimit(RLIMIT_NOFILE, &limit); /* what came of it is asked below */
		(void)getrlimit(RLIMIT_NOFILE, &limit); /* worked above */
	}
	return limit.rlim_cur;
}
