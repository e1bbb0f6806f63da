#pragma once
/*
 * Where everything is.  In a pod these places are part of the contract with what submits the
 * job (docs/RUNTIME.md); `--root DIR` puts DIR before every one of them, so that init, run and
 * exit also work as plain processes.  What is written into scripts contains the root.
 */
#include "base/arena.h"
#include "base/str.h"

struct layout {
	const char *root;       /* "" in a pod */
	const char *work;       /* /usr/local/pai: volume that init and app share */
	const char *program;    /* /usr/local/pai/runtime: this program, for the app container */
	const char *runtime_d;  /* /usr/local/pai/runtime.d: environment and scripts */
	const char *framework;  /* /usr/local/pai/framework.json */
	const char *ssh_secret; /* /usr/local/pai/ssh-secret */
	const char *code;       /* /usr/local/pai/code */
	const char *logs;   /* /usr/local/pai/logs/$FC_POD_UID; without that $HOSTNAME, then task */
	const char *config; /* /usr/local/pai-config: mount of the exit specification */
	const char *secrets;   /* /usr/local/pai/secrets/secrets.yaml; may be absent */
	const char *extension; /* /usr/local/pai/user-extension-secrets/userExtensionSecrets.yaml */
	const char *token;     /* /usr/local/pai/token-secrets/token: application token */
	const char *account;   /* /var/run/secrets/kubernetes.io/serviceaccount */
	const char
	    *output; /* /var/run/secrets/rest-lit: token and ca.crt for handing over output */
	const char *termination;      /* /tmp/pai-termination-log of the app container */
	const char *init_termination; /* /dev/termination-log of the init container */
	const char *passwd_home;      /* /root: home of the user of sshd */
};

/* All paths for a root; they live in the arena.  Reads FC_POD_UID and HOSTNAME, and takes only
 * [A-Za-z0-9._-] from them, for they become file names. */
void layout_init(struct layout *l, const char *root, struct arena *a);

/* "dir/name" in the arena. */
const char *path_join(struct arena *a, const char *dir, const char *name);
