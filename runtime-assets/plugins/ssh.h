#pragma once
/*
 * What the plugin ssh and its subcommands sshd and ssh-barrier agree on.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
	SSH_KEYS_MAX = 256,
	SSH_KEY_MAX = 16384,
	SSH_TEXT_MAX = SSH_KEYS_MAX * SSH_KEY_MAX,
	SSH_BARRIER_MINUTES = 30, /* by default */
	SSH_BARRIER_MAX = 1440    /* nobody waits for longer than a day */
};

/*
 * One line of authorized_keys: a known type (ssh-rsa, ssh-ed25519, ecdsa-sha2-*, sk-*), a blank,
 * base64, and perhaps a comment.  So no options like command="..." and no second line.
 */
bool ssh_key_valid(struct span line);

/* Where the keys of the job are, under layout.ssh_secret. */
#define SSH_PRIVATE "ssh-privatekey"
#define SSH_PUBLIC  "ssh-publickey"

/* The private one as ssh(1) of this task uses it, in ssh_directory(). */
#define SSH_JOB_KEY "job_key"

/* A name of a file under layout.ssh_secret: [A-Za-z0-9._-]+, no dot in front. */
bool ssh_file_name(struct span name);

/*
 * A task that can be reached by ssh, out of the environment: `role:index` of
 * PAI_TASK_ROLE_INSTANCES with PAI_HOST_IP_role_index and the first port of
 * PAI_role_index_ssh_PORT.  Texts are checked, so that they can stand in a configuration.
 */
struct ssh_peer {
	const char *alias; /* role-index */
	const char *address;
	int64_t port;
	bool own;
};
struct ssh_peers {
	struct ssh_peer *v;
	size_t n;
	size_t unknown; /* instances without an address or a port */
};
void ssh_peers(struct ssh_peers *p, struct arena *a);

/* The first port of a comma list (a label may have several); NULL or no port: -1. */
int ssh_first_port(const char *list, int64_t *port);

/*
 * What a session over ssh gets of our environment: lines NAME=VALUE, as sshd reads them.  Only
 * names that are for everybody (PAI_, FC_, PATH, CUDA and the like), none that sounds like a
 * secret, one line each; sshd takes at most 1000 lines, so the addresses of other tasks come last.
 * *left_out counts those of ours that were not taken.
 */
void ssh_environment(struct str *out, char *const *environment, size_t *left_out);

/* `Host role-index` blocks of all peers, for ssh(1).  `key` is the path of the private key. */
void ssh_hosts(struct str *out, const struct ssh_peers *p, const char *key);

/*
 * The user's ~/.ssh/config with our blocks at its top, between two comments; what was between them
 * before goes, all else stays and keeps its meaning.
 */
void ssh_merge_config(struct str *out, struct span theirs, struct span hosts);

/* The directory of sshd_config, keys and the rest: .pai-ssh beside root's .ssh.  (sshd demands of
 * authorized_keys that no directory above it is writable by others; the work volume is.) */
const char *ssh_directory(const char *home, struct arena *a);
