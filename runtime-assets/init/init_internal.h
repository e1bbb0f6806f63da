#pragma once
/* Parts of init for its own files and tests. */
#include "base/pod/portspec.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/net/kube.h"

/* ---- barrier.c ------------------------------------------------------------------------------- */

/*
 * Waits for the Framework: until all tasks have an address (gang allocation), or until it shows the
 * address of this task.
 *
 * All tasks start together and each answer is the whole object, so polls are spread: jitter, short
 * intervals only at first, and at most BARRIER_RATE requests a second for all tasks together.  They
 * use resourceVersion=0 (the API server's cache), which costs etcd nothing but may be stale.  So
 * "all have an address" counts only if the object shows the uid of this pod; otherwise, and for
 * "not found", the request is repeated without resourceVersion.
 */
enum { BARRIER_RATE = 200, BARRIER_LISTED = 20 /* missing tasks named in a message */ };

struct barrier_times {
	int64_t interval_ms; /* between polls, after some time */
	int64_t timeout_ms;  /* of waiting for all tasks */
	int64_t first_ms;    /* the first interval; each next one is half as long again */
	int64_t request_ms;  /* of one answer */
	int64_t fetch_ms;    /* without gang allocation: for the Framework and the own address */
};

/* Reads BARRIER_CHECK_INTERVAL_SEC (5 to 1200, default 10) and BARRIER_CHECK_TIMEOUT_SEC (60 to
 * 1200, default 600).  -1 and *e. */
int barrier_times_read(struct barrier_times *t, struct err *e);
/* Reads all five in milliseconds, with commas; for tests. */
int barrier_times_parse(struct barrier_times *t, struct span text, struct err *e);

enum barrier_answer {
	ANSWER_FINE,    /* 200: the body decides */
	ANSWER_GONE,    /* there is no such Framework */
	ANSWER_REFUSED, /* permanent if repeated: the token, RBAC, the definition */
	ANSWER_TROUBLE, /* try again */
	ANSWER_NEVER,   /* no common version of TLS */
	ANSWER_NOT_YET  /* addresses are missing; only of a body */
};

/* Classifies an exchange; `trouble` is the result of kube_get.  Pure. */
enum barrier_answer barrier_judge(int trouble, const struct http_reply *r, const char *name);

/* The pause after poll n (from 0) of a job with `total` tasks, with jitter of at most a quarter.
 * Pure. */
int64_t barrier_delay(const struct barrier_times *t, unsigned n, int64_t total, uint32_t random);

/* Appends "worker:2, worker:3 and 5 more": tasks without an address.  Pure. */
void barrier_missing(const struct init_framework *f, struct str *out);

/* Returns true if the object has the uid of this pod.  Pure. */
bool barrier_shows_us(const struct init *in, const struct init_framework *f);

/* ---- init.c, code.c -------------------------------------------------------------------------- */

/* Empties a directory, but for mounts and the names in `kept`, which ends with NULL; what stays
 * gives a warning.  -1 and errno: it cannot be listed. */
int clean_directory(const char *path, const char *const *kept);

/* ---- env.c ----------------------------------------------------------------------------------- */

/*
 * The variables of docs/RUNTIME-INIT.md: for each role of the status, its tasks, and the labels of
 * their ports; then those of the own task.  If the job spells a role in another way than
 * Kubernetes, there is a variable for each spelling: PAI_HOST_IP_psserver_0 and
 * PAI_HOST_IP_ps_server_0.
 */
struct env_text {
	struct str shell; /* lines export NAME='VALUE' */
	struct str nul;   /* NAME=VALUE, each ended by NUL */
	struct str hosts; /* lines `role-index slots=N` of extras.distributed */
};

enum { ENV_TEXT_MAX = 64 << 20 };

/* Writes both and sets in->port.  `warnings` names what is left out.  -1 and *e: the ports of the
 * own role cannot be read, or the text is too long. */
int env_write(struct init *in, struct env_text *out, struct notes *warnings, struct err *e);

/* Appends `address:port`, after a comma if there is text; IPv6 in []. */
void env_add_host(struct str *hosts, const char *address, int64_t port);
/* Appends a variable to both texts. */
void env_put_texts(struct env_text *out, struct span name, struct span value);

/* ---- distributed.c --------------------------------------------------------------------------- */

/* Writes the texts that `extras.distributed` of a v2 job gives a task of its roles, nothing for
 * other tasks, with lines that set a variable unless it is set; sets in->ssh_roles and
 * in->ssh_first. `warnings` names what is not known. */
void distributed_write(struct init *in, struct env_text *out, struct notes *warnings);

/* ---- ports.c --------------------------------------------------------------------------------- */

/* Every task computes the ports of all tasks (base/pod/portspec.h). */

/* Port i of a label of a task, whose ports are known. */
uint16_t portspec_port(const struct portspec *p, const struct port_label *l,
                       struct port_source from, int64_t index, int64_t i);

/* Returns true if the ports of such a task are known. */
static inline bool portspec_known(const struct portspec *p, struct port_source from)
{
	return from.uid || from.given || p->sequential || p->n == 0;
}

/* Returns true if it can be part of a variable's name: [A-Za-z_][A-Za-z0-9_]*. */
bool portspec_name_ok(const char *name);
