#pragma once
/*
 * Addresses of listeners and clients.
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

/* ---- listeners ---- */

struct address {
	struct sockaddr_storage socket;
	socklen_t n;
};

/* "127.0.0.1:9186", "[::1]:9186", "localhost:9186", ":9186" (all).  -1 and *e, which names the
 * option. */
int address_parse(const char *option, const char *text, struct address *out, struct err *e);
/* A Unix socket at this path, which is cut if it does not fit. */
void address_unix(const char *path, struct address *out);
bool address_is_loopback(const struct address *a); /* or a Unix socket */
uint16_t address_port(const struct address *a);    /* 0 of a Unix socket */
void address_text(struct str *out, const struct address *a);

/*
 * Opens n listeners on one address; the kernel distributes new connections among them.  For port 0
 * the kernel chooses a port, stored in *a; a Unix socket has one listener.  -1 and *e: the address
 * is in use; nothing is open.
 * Thread: main. */
int listeners_open(struct address *a, int *fds, size_t n, struct err *e);
/* A Unix socket at this path that every account may connect to.  It takes the place of one on which
 * nobody listens, and is there only when it listens.  -1 and *e.
 * Thread: main. */
int listener_for_accounts(const char *path, struct err *e);

/* ---- clients: 16 bytes as IPv6, IPv4 is mapped (::ffff:a.b.c.d).  Pure, but for
 * client_address_local. ---- */

enum { CLIENT_ADDRESS_BYTES = 16, CLIENT_ADDRESS_TEXT = 46 /* INET6_ADDRSTRLEN */ };
enum { CLIENT_KEY_BYTES = 20, NETWORKS_MAX = 64 };

struct client_address {
	uint32_t account; /* of this machine that has the client's socket: uid + 1; 0: unknown */
	unsigned char b[CLIENT_ADDRESS_BYTES]; /* of a Unix socket: 0 */
};

/* false: neither IPv4 nor IPv6. */
bool client_address_of(const struct sockaddr *from, struct client_address *out);
/* The account of the process that has connected to a Unix socket, as unix(7) tells it
 * (SO_PEERCRED). false: the kernel does not tell it. */
bool client_address_peer(int fd, struct client_address *out);
/* "10.0.0.1", "fd00::1", and with a port: "10.0.0.1:80", "[fd00::1]:80". */
bool client_address_parse(struct span text, struct client_address *out);
/* "10.0.0.1", "fd00::1"; of a Unix socket "uid 1001". */
void client_address_text(const struct client_address *p, char out[static CLIENT_ADDRESS_TEXT]);
/* Sets the account of a client that has connected to this listener by loopback; asks the kernel,
 * which answers at once.  It stays 0 if the kernel cannot tell: there is no
 * sock_diag, or the client has closed its socket. */
void client_address_local(struct client_address *p, const struct sockaddr *from, int listen_fd);
/* The unit of rate limits: an IPv4 address or an IPv6 /64, with the account. */
struct span client_address_key(const struct client_address *p);

struct networks {
	struct {
		struct client_address base;
		unsigned bits; /* of 128 */
	} v[NETWORKS_MAX];
	size_t n;
};

/* "10.0.0.0/8, fd00::/8, 192.0.2.7".  -1 and *e (400); bits beyond the prefix must be 0. */
int networks_parse(struct span text, struct networks *out, struct err *e);
bool networks_have(const struct networks *all, const struct client_address *p);
