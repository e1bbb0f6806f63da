#pragma once
/* Sockets to listen on.  At start only. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct address {
	struct sockaddr_storage socket;
	socklen_t n;
};

/* "127.0.0.1:9186", "[::1]:9186", "localhost:9186", ":9186" (all).  -1 and *e, which names the
 * option. */
int address_parse(const char *option, const char *text, struct address *out, struct err *e);
bool address_is_loopback(const struct address *a);
uint16_t address_port(const struct address *a);
void address_text(struct str *out, const struct address *a);

/*
 * Open n listeners on one address, among which the kernel shares out new connections.  A
 * port 0 is replaced by the one that was taken.  An address that somebody listens on is
 * refused.  -1 and *e, and nothing is open.
 */
int listeners_open(struct address *a, int *fds, size_t n, struct err *e);
