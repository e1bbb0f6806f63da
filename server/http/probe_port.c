#include "server/http/probe_port.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <unistd.h>

enum { CONNECTIONS = 16, TIMEOUT_S = 10, POOL_BYTES = 4096, ANSWER_MAX = 1 << 20 };

struct probe_port {
	struct MHD_Daemon *http;
	probe_answer *answer;
	void *arg;
};

static enum MHD_Result probe_reply(struct MHD_Connection *c, int status, struct str *body)
{
	size_t n = body->n;
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(n, str_take(body), MHD_RESPMEM_MUST_FREE);
	if (!response)
		return MHD_NO;
	/* Fails only for invalid text. */
	(void)MHD_add_response_header(response, "Content-Type",
	                              "text/plain; version=0.0.4; charset=utf-8");
	enum MHD_Result result = MHD_queue_response(c, (unsigned)status, response);
	MHD_destroy_response(response);
	return result;
}

/* libmicrohttpd prescribes the parameters. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result probe_request(void *arg, struct MHD_Connection *c, const char *path,
                                     const char *method, const char *version, const char *upload,
                                     size_t *upload_n, void **of_request)
{
	static char began;
	const struct probe_port *p = arg;
	STR_AUTO body = STR_INIT(ANSWER_MAX);
	int status = 405;
	(void)version;
	(void)upload;
	if (!*of_request) { /* the head; the answer is given after the body, which is ignored */
		*of_request = &began;
		return MHD_YES;
	}
	if (*upload_n)
		return MHD_NO; /* there is no such request */
	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		status = p->answer(p->arg, path, &body);
	if (status == 0)
		status = 404;
	if (!body.n)
		str_puts(&body, status == 404 ? "not found\n" : "GET only\n");
	return probe_reply(c, status, &body);
}

struct probe_port *probe_port_new(int listen_fd, probe_answer *answer, void *arg, struct err *e)
{
	struct probe_port *p = xcalloc(1, sizeof(*p));
	p->answer = answer;
	p->arg = arg;
	p->http = MHD_start_daemon(
	    MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, probe_request, p,
	    MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    (size_t)POOL_BYTES, MHD_OPTION_END);
	if (p->http)
		return p;
	(void)close(listen_fd); /* unused: no data can be lost */
	free(p);
	(void)err_set(e, UNKNOWN_ERROR, "libmicrohttpd did not start");
	return NULL;
}

void probe_port_free(struct probe_port *p)
{
	if (!p)
		return;
	MHD_stop_daemon(p->http);
	free(p);
}
