#pragma once
/* The callbacks of libmicrohttpd that are about requests; for http.c. */
#include <microhttpd.h>

struct connection;
struct request;

/* What notify_connection has made. */
struct connection *http_connection_of(struct MHD_Connection *m);

/* A header of it as it came, or NULL; until the request ends, and never Authorization. */
const char *request_header(const struct request *r, const char *name);
/* The same as answer_send, with a body that is not r->reply.body.  Takes the response over; NULL is
 * out of memory. */
void answer_with(struct request *r, struct MHD_Response *response);

/* cls is the loop.  Its declarations are the library's. */
void *http_request_begin(void *cls, const char *uri, struct MHD_Connection *m);
/* NOLINTNEXTLINE(readability-function-size): and so are the parameters */
enum MHD_Result http_request_step(void *cls, struct MHD_Connection *m, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **context);
void http_request_end(void *cls, struct MHD_Connection *m, void **context,
                      enum MHD_RequestTerminationCode how);
