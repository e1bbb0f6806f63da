#pragma once
/* What `pai-runtime sshd` is about to do; for sshd.c. */
#include "base/arena.h"
#include "runtime-assets/layout.h"

enum { SSHD_SOURCES_MAX = 4 };

/* Where public keys come from: `custom` and the keys themselves, `system` and a file's name. */
struct sshd_source {
	const char *type, *value;
};

struct sshd {
	struct arena a;
	struct layout at;
	bool job; /* tasks of the job log in to each other */
	struct sshd_source source[SSHD_SOURCES_MAX];
	int n_sources;
	int64_t port;
	int64_t pause_ms; /* between tries of apt-get */
	/* Files. */
	const char *dir, *home_ssh, *key, *host_key, *config, *pid_file, *log;
};
