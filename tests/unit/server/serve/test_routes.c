/* The table of routes: paths and methods. */

#include "tests/unit/base/cmocka.h"

#include "server/serve/routes.h"

/* The path of the route that is found, or NULL; args as "a,b" in *got. */
static const char *find(const char *method, const char *path, struct str *got)
{
	struct span args[ROUTE_ARGS];
	const struct route *r = route_find(&ROUTES, method, span_of(path), &unit.a, args);
	for (size_t i = 0; r && got && i < ROUTE_ARGS; i++) {
		str_puts(got, i ? "," : "");
		str_span(got, args[i]);
	}
	return r ? r->path : NULL;
}

TEST(test_route_find_gives_route_and_arguments)
{
	static const struct {
		const char *method, *path, *found, *args;
	} CASES[] = {
		{ "POST", "/api/v2/jobs", "/api/v2/jobs", ",,,,," },
		{ "GET", "/", "/", ",,,,," },
		{ "HEAD", "/healthz", "/healthz", ",,,,," },
		{ "POST", "/rest-server/api/v2/jobs", "/api/v2/jobs", ",,,,," },
		{ "POST", "/rest-server/api/v2/jobs/", "/api/v2/jobs", ",,,,," },
		{ "POST", "/rest-server/rest-server/api/v2/jobs", NULL, "" },
		{ "GET", "/rest-server", NULL, "" },
		{ "GET", "/rest-serverhealthz", NULL, "" },
		{ "PUT", "/api/v1/user/%61lice/jobs/a%2Db", "/api/v1/user/{user}/jobs/{job}",
		  "alice,a-b,,,," },
		{ "POST", "/api/v1/user/%2561/jobs", "/api/v1/user/{user}/jobs", "%61,,,,," },
		{ "DELETE", "/api/v2/jobs", NULL, "" },
		{ "POST", "/healthz", NULL, "" },
		{ "HEAD", "/api/v2/tokens/application", NULL, "" },
		{ "POST", "/api/v1/user//jobs", NULL, "" },
		{ "POST", "/api/v1/user/./jobs", NULL, "" },
		{ "POST", "/api/v1/user/%2e%2e/jobs", NULL, "" },
		{ "POST", "/api/v1/user/a%2fb/jobs", NULL, "" },
		{ "POST", "/api/v1/user/a%00/jobs", NULL, "" },
		{ "POST", "/api/v1/user/a%/jobs", NULL, "" },
		{ "POST", "/api/v1/user/a%4/jobs", NULL, "" },
		{ "POST", "/api/v1/user/a%zz/jobs", NULL, "" },
		{ "POST", "/api/v1/user/%c3%28/jobs", NULL, "" },
		{ "GET", "/api/v2/jobs/a~b/results/c/d%c3%28/%2e%0a",
		  "/api/v2/jobs/{job}/results/{path}", "a~b,c/d\xc3(/.\n,,,," },
		{ "GET", "/api/v2/jobs/a~b/results/", "/api/v2/jobs/{job}/results", "a~b,,,,," },
		{ "GET", "/api/v2/jobs/a~b/results//", NULL, "" },
		{ "GET", "/api/v2/jobs/a~b/results/c%2fd", NULL, "" },
		{ "GET", "/api/v2/jobs/a~b/results/c%00", NULL, "" },
		{ "POST", "//api/v2/jobs", NULL, "" },
		{ "POST", "/api/v2/jobs//", NULL, "" },
		{ "POST", "/api/v2/../v2/jobs", NULL, "" },
		{ "POST", "http://evil/api/v2/jobs", NULL, "" },
		{ "POST", "*", NULL, "" },
		{ "POST", "", NULL, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO args = STR_INIT(100);
		const char *found = find(CASES[i].method, CASES[i].path, &args);
		if (strcmp(found ?: "", CASES[i].found ?: "") != 0 ||
		    strcmp(str_c(&args), CASES[i].args) != 0)
			fail_msg("%s: %s %s", CASES[i].path, found, str_c(&args));
	}
}

TEST(test_route_find_takes_any_method_of_information_routes)
{
	static const char *const METHODS[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	for (size_t i = 0; i < ARRAY_SIZE(METHODS); i++) {
		assert_string_equal(find(METHODS[i], "/api/v2/info", NULL), "/api/v2/info");
		assert_string_equal(find(METHODS[i], "/api/v1/", NULL), "/api/v1");
	}
}

/* No route hides another one. */
TEST(test_routes_are_all_reached)
{
	for (size_t i = 0; i < ROUTES.n; i++) {
		const char *method =
		    strcmp(ROUTES.row[i].method, "*") == 0 ? "GET" : ROUTES.row[i].method;
		STR_AUTO path = STR_INIT(1000);
		for (const char *p = ROUTES.row[i].path; *p; p++)
			if (*p != '{' && *p != '}')
				str_char(&path, *p);
		assert_string_equal(find(method, str_c(&path), NULL), ROUTES.row[i].path);
	}
}

TEST(test_route_methods_lists_the_methods_of_a_path)
{
	static const char *const CASES[][2] = {
		{ "/healthz", "GET, HEAD, OPTIONS" },
		{ "/api/v2/jobs/watch", "GET, HEAD, OPTIONS" }, /* two rows fit */
		{ "/api/v1", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" },
		{ "/nothing", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO out = STR_INIT(100);
		route_methods(&ROUTES, &out, span_of(CASES[i][0]), &unit.a);
		assert_string_equal(str_c(&out), CASES[i][1]);
	}
}

TEST(test_routes_page_has_all_routes)
{
	STR_AUTO page = STR_INIT(65536);
	routes_page(&page);
	for (size_t i = 0; i < ROUTES.n; i++)
		assert_non_null(strstr(str_c(&page), ROUTES.row[i].path));
}
