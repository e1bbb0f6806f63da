/* Files of ssh that are made of other texts: environment of sessions, client configuration. */
#include <stdio.h>

#include "runtime-assets/plugins/ssh.h"

enum {
	LINES_MAX = 1000,     /* sshd gives up on longer files */
	LINE_MAX_BYTES = 4000 /* OpenSSH before 7.8 cuts longer lines in two */
};

/* ---- environment of sessions ---------------------------------------------------------------- */

/* How variables begin that are for everybody; with `=` it is the whole name. */
static const char *const FOR_SESSIONS[] = {
	"PATH=",         "LD_LIBRARY_PATH=",
	"LIBRARY_PATH=", "PYTHONPATH=",
	"CONDA_",        "CUDA_",
	"NVIDIA_",       "NCCL_",
	"OMPI_",         "UCX_",
	"HOROVOD_",      "OMP_",
	"LANG=",         "LC_",
	"TZ=",           "PAI_",
	"FC_",
};

/* Made by init or the server from names and numbers; a role may well be called `keys`. */
static const char *const OURS[] = {
	"PAI_PORT_LIST_", "PAI_HOST_IP_",  "PAI_TASK_ROLE_", "PAI_CONTAINER_",
	"PAI_CURRENT_",   "PAI_RESOURCE_", "PAI_MIN_",
};

static const char *const SECRETS[] = { "TOKEN",      "SECRET", "PASSW", "KEY",
	                               "CREDENTIAL", "AUTH",   "PWD",   "COOKIE" };

static bool starts_one(struct span s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (span_starts(s, list[i]))
			return true;
	}
	return false;
}

static bool sounds_secret(struct span name)
{
	char text[256];
	if (name.n >= sizeof(text))
		return true;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < sizeof(SECRETS) / sizeof(*SECRETS); i++) {
		if (strcasestr(text, SECRETS[i]))
			return true;
	}
	return false;
}

static bool is_name(struct span name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return name.n > 0;
}

static bool for_sessions(struct span name, struct span line)
{
	if (!is_name(name) ||
	    !starts_one(line, FOR_SESSIONS, sizeof(FOR_SESSIONS) / sizeof(*FOR_SESSIONS)))
		return false;
	return starts_one(line, OURS, sizeof(OURS) / sizeof(*OURS)) || !sounds_secret(name);
}

/* Of another task: there can be thousands. */
static bool of_a_task(struct span name)
{
	if (span_starts(name, "PAI_PORT_LIST_") || span_starts(name, "PAI_HOST_IP_"))
		return true;
	bool port = name.n > 5 && memcmp(name.p + name.n - 5, "_PORT", 5) == 0;
	return port && span_starts(name, "PAI_") && !span_starts(name, "PAI_CONTAINER_") &&
	       !span_starts(name, "PAI_CURRENT_");
}

void ssh_environment(struct str *out, char *const *environment, size_t *left_out)
{
	size_t lines = 0;
	*left_out = 0;
	for (int tasks = 0; tasks < 2; tasks++) {
		for (char *const *v = environment; *v; v++) {
			struct span line = span_of(*v);
			struct span name = { *v, strcspn(*v, "=") };
			if (!for_sessions(name, line) || of_a_task(name) != (tasks == 1))
				continue;
			if (lines == LINES_MAX || line.n > LINE_MAX_BYTES || strpbrk(*v, "\n\r")) {
				++*left_out;
				continue;
			}
			lines++;
			str_span(out, line);
			str_char(out, '\n');
		}
	}
}

/* ---- configuration of the client --------------------------------------------------------------
 */

/* Tasks of one job trust each other by the job's key; their host keys are made at their start. */
void ssh_hosts(struct str *out, const struct ssh_peers *p, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		str_printf(out,
		           "Host %s\n"
		           "  HostName %s\n"
		           "  Port %lld\n"
		           "  User root\n"
		           "  IdentityFile \"%s\"\n"
		           "  StrictHostKeyChecking no\n"
		           "  UserKnownHostsFile /dev/null\n"
		           "  LogLevel ERROR\n",
		           p->v[i].alias, p->v[i].address, (long long)p->v[i].port, key);
}

static const char BEGIN[] = "# begin of what pai-runtime writes at each start\n";
static const char END[] = "# end of what pai-runtime writes\n";

void ssh_merge_config(struct str *out, struct span theirs, struct span hosts)
{
	size_t begin = span_find(theirs, 0, BEGIN);
	size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(theirs, begin, END);
	str_puts(out, BEGIN);
	str_span(out, hosts);
	/* What follows was for all hosts, and still is. */
	str_puts(out, "Host *\n");
	str_puts(out, END);
	if (end == SIZE_MAX) {
		str_span(out, theirs);
		return;
	}
	size_t rest = end + sizeof(END) - 1;
	str_put(out, theirs.p, begin);
	str_put(out, theirs.p + rest, theirs.n - rest);
}
