/* Which path leads where, and what never does. */

#include "tests/unit/base/cmocka.h"

#include "server/http/routes.h"

/* The path of the route that is found, or NULL; args as "a,b" in *got. */
static const char *find(const char *method, const char *path, struct str *got)
{
	ARENA_AUTO a = { 0 };
	struct span args[ROUTE_ARGS];
	const struct route *r = route_find(method, span_of(path), &a, args);
	for (size_t i = 0; r && got && i < ROUTE_ARGS; i++) {
		str_puts(got, i ? "," : "");
		str_span(got, args[i]);
	}
	return r ? r->path : NULL;
}

TEST(test_route_find_exact)
{
	assert_string_equal(find("POST", "/api/v2/jobs", NULL), "/api/v2/jobs");
	assert_string_equal(find("GET", "/", NULL), "/");
	assert_string_equal(find("HEAD", "/healthz", NULL), "/healthz");
}

TEST(test_route_find_prefix_and_slash)
{
	assert_string_equal(find("POST", "/rest-server/api/v2/jobs", NULL), "/api/v2/jobs");
	assert_string_equal(find("POST", "/rest-server/api/v2/jobs/", NULL), "/api/v2/jobs");
	assert_null(find("POST", "/rest-server/rest-server/api/v2/jobs", NULL));
	assert_null(find("GET", "/rest-server", NULL));
	assert_null(find("GET", "/rest-serverhealthz", NULL));
}

TEST(test_route_find_args)
{
	STR_AUTO got = STR_INIT(100);
	assert_string_equal(find("PUT", "/api/v1/user/%61lice/jobs/a%2Db", &got),
	                    "/api/v1/user/{user}/jobs/{job}");
	assert_string_equal(str_c(&got), "alice,a-b,,,,");
}

TEST(test_route_find_decodes_once)
{
	STR_AUTO got = STR_INIT(100);
	assert_non_null(find("POST", "/api/v1/user/%2561/jobs", &got));
	assert_string_equal(str_c(&got), "%61,,,,,");
}

TEST(test_route_find_other_method)
{
	assert_null(find("DELETE", "/api/v2/jobs", NULL));
	assert_null(find("POST", "/healthz", NULL));
	assert_null(find("HEAD", "/api/v2/tokens/application", NULL));
}

TEST(test_route_find_any_method)
{
	static const char *const METHODS[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	for (size_t i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++) {
		assert_string_equal(find(METHODS[i], "/api/v2/info", NULL), "/api/v2/info");
		assert_string_equal(find(METHODS[i], "/api/v1/", NULL), "/api/v1");
	}
}

/* None stands in the shadow of another. */
TEST(test_routes_are_all_reached)
{
	for (size_t i = 0; i < N_ROUTES; i++) {
		const char *method = strcmp(ROUTES[i].method, "*") == 0 ? "GET" : ROUTES[i].method;
		STR_AUTO path = STR_INIT(1000);
		for (const char *p = ROUTES[i].path; *p; p++)
			if (*p != '{' && *p != '}')
				str_char(&path, *p);
		assert_string_equal(find(method, str_c(&path), NULL), ROUTES[i].path);
	}
}

TEST(test_route_find_bad_segments)
{
	static const char *const PATHS[] = {
		"/api/v1/user//jobs",
		"/api/v1/user/./jobs",
		"/api/v1/user/%2e%2e/jobs",
		"/api/v1/user/a%2fb/jobs",
		"/api/v1/user/a%00/jobs",
		"/api/v1/user/a%/jobs",
		"/api/v1/user/a%4/jobs",
		"/api/v1/user/a%zz/jobs",
		"/api/v1/user/%c3%28/jobs",
		"//api/v2/jobs",
		"/api/v2/jobs//",
		"/api/v2/../v2/jobs",
		"http://evil/api/v2/jobs",
		"*",
		"",
	};
	for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++)
		assert_null(find("POST", PATHS[i], NULL));
}

TEST(test_route_methods)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(100);
	route_methods(&out, SPAN("/healthz"), &a);
	assert_string_equal(str_c(&out), "GET, HEAD, OPTIONS");
	STR_AUTO twice = STR_INIT(100); /* two rows fit */
	route_methods(&twice, SPAN("/api/v2/jobs/watch"), &a);
	assert_string_equal(str_c(&twice), "GET, HEAD, OPTIONS");
	STR_AUTO any = STR_INIT(100);
	route_methods(&any, SPAN("/api/v1"), &a);
	assert_string_equal(str_c(&any), "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	STR_AUTO none = STR_INIT(100);
	route_methods(&none, SPAN("/nothing"), &a);
	assert_string_equal(str_c(&none), "");
}

TEST(test_routes_page_has_all)
{
	STR_AUTO page = STR_INIT(65536);
	routes_page(&page);
	for (size_t i = 0; i < N_ROUTES; i++)
		assert_non_null(strstr(str_c(&page), ROUTES[i].path));
}
