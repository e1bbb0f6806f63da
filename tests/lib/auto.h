#pragma once
/* Variables that are freed at the end of their block. */

/* By end(&it): AUTO(run_done) struct run r = run_doc(text); */
#define AUTO(end) __attribute__((cleanup(end)))
/* By NAME_free(it): AUTO_FREE(framework) at the top of a file, then
 * AUTO(framework_auto) struct framework *f = framework_new(c); */
#define AUTO_FREE(name)                                                                            \
	static inline void name##_auto(struct name **it)                                           \
	{                                                                                          \
		name##_free(*it);                                                                  \
	}
