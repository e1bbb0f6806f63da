#pragma once
/*
 * The table of all routes, and the handlers that tell of the server itself.  The tables of
 * docs/ROUTES.md, the text at / and /openapi.json are generated from the table.
 *
 * Thread: any
 */
#include "server/http/route.h"

extern const struct route_table ROUTES;

/* health.c */
handler info_get, authn_get, index_get, healthz_get, readyz_get;

/* openapi.c */
handler openapi_get;

/* schemas.c */
handler schemas_get;

/* The tables of parameters of a route besides those of its path; NULL from the last one on. */
const struct parameter *route_parameters(const struct route *route, size_t i);
/* Appends the tables of docs/ROUTES.md, routes and parameters, the parameters of lists for
 * docs/FOLLOWING.md, and /openapi.json (openapi.c). */
void routes_page(struct str *out);
void parameters_page(struct str *out);
void list_parameters_page(struct str *out);
void openapi_page(struct str *out);
/* The names of all JSON Schemas, and one of them; false: there is none of this name (schemas.c). */
void schema_names(struct str *out, const char *between);
bool schema_named(struct str *out, struct span name);
