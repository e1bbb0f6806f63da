#pragma once
/*
 * What the plugin ssh and its subcommands sshd and ssh-barrier agree on.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { SSH_KEYS_MAX = 256, SSH_KEY_MAX = 16384, SSH_BARRIER_MINUTES = 30 };

/*
 * One line of authorized_keys: a known type (ssh-rsa, ssh-ed25519, ecdsa-sha2-*, sk-*), a blank,
 * base64, and perhaps a comment.  So no options like command="..." and no second line.
 */
bool ssh_key_valid(struct span line);

/* Where the keys of the job are, under layout.ssh_secret. */
#define SSH_PRIVATE "ssh-privatekey"
#define SSH_PUBLIC  "ssh-publickey"

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

/* The directory of sshd_config, keys and the rest: .pai-ssh beside root's .ssh.  (sshd demands of
 * authorized_keys that no directory above it is writable by others; the work volume is.) */
const char *ssh_directory(const char *home, struct arena *a);
