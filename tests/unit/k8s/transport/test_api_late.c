/* The store keeps deadlines by its own clock, even if libcurl sets no timer for them. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>

/* Replaces the function of the library: no timer is ever set. */
CURLMcode(curl_multi_setopt)(CURLM *multi, CURLMoption option, ...)
{
	CURLMcode (*real)(CURLM *, CURLMoption, ...);
	void *found = dlsym(RTLD_NEXT, "curl_multi_setopt");
	assert_non_null(found);
	memcpy(&real, &found, sizeof(real));
	va_list ap;
	va_start(ap, option);
	void *value = va_arg(ap, void *);
	va_end(ap);
	return option == CURLMOPT_TIMERFUNCTION ? CURLM_OK : real(multi, option, value);
}

TEST(test_deadlines_hold_without_the_timer_of_libcurl)
{
	START({ HANG, NULL });
	struct kept k = act(STORE_GET, 300);
	assert_int_equal(k.outcome, STORE_BUSY);
	size_t before = server.requests;
	do /* one that was never sent was late because this process was stalled */
		k = act(STORE_CREATE, 300);
	while (server.requests == before);
	assert_int_equal(k.outcome, STORE_AMBIGUOUS);
	assert_int_equal(store_pending(store), 0);
	assert_int_equal(store_timeout_ms(store), -1);
}
