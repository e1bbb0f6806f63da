/* frameworkcontroller.yaml: errors and their places. */

#include "tests/unit/base/cmocka.h"

#include "jobs/framework/framework.h"

static const char *const FINE[] = {
	"",
	"# nothing\n",
	"kubeApiServerAddress: http://x\nlargeFrameworkCompression: true\n",
	"podFailureSpec: []\n",
	"podFailureSpec:\n- {code: 1, podPatterns: [{containers: [{codeRange: {min: 1}}]}]}\n",
	"frameworkCompletedRetainSec: 0\n",
	"maxAlikeAttempts: 3\n",
};

static const struct {
	const char *yaml, *at, *says;
} WRONG[] = {
	{ "[]", "", "the configuration must be a mapping, is a list" },
	{ "objectLocalCacheCreationTimeoutSec: 59", "/objectLocalCacheCreationTimeoutSec",
	  "must be from 60 to 2147483647, is 59" },
	{ "maxAlikeAttempts: -1", "/maxAlikeAttempts", "must be from 0 to 2147483647, is -1" },
	{ "frameworkCompletedRetainSec: x", "/frameworkCompletedRetainSec",
	  "must be an integer, is text" },
	{ "podFailureSpec: 7", "/podFailureSpec", "must be a list, is an integer" },
	{ "podFailureSpec: [{phrase: x}]", "/podFailureSpec/0/code",
	  "must be an integer, is absent" },
	{ "podFailureSpec: [{code: 200}]", "/podFailureSpec/0/code",
	  "must not be from -999 to 0 or from 200 to 219, which are reserved, is 200" },
	{ "podFailureSpec: [{code: 5}, {code: 5}]", "/podFailureSpec/1/code",
	  "5 has an entry already" },
	{ "podFailureSpec: [{code: 5, type: {attributes: [1]}}]",
	  "/podFailureSpec/0/type/attributes/0", "must be text, is an integer" },
	{ "podFailureSpec: [{code: 5, podPatterns: [{messageRegex: '('}]}]",
	  "/podFailureSpec/0/podPatterns/0/messageRegex",
	  "is no regular expression: missing closing ) of the group at byte 1" },
};

TEST(test_framework_config_accepts_valid_files)
{
	for (size_t i = 0; i < sizeof(FINE) / sizeof(*FINE); i++) {
		struct framework_config *c = framework_config_read(span_of(FINE[i]), no_err());
		if (!c)
			fail_msg("%s: %s", FINE[i], err_msg(&unit.e));
		framework_config_free(c);
	}
}

TEST(test_framework_config_refuses_invalid_files)
{
	for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++) {
		assert_null(framework_config_read(span_of(WRONG[i].yaml), no_err()));
		assert_true(unit.e.notes.n > 0);
		if (strstr(err_msg(&unit.e), WRONG[i].says) == NULL)
			fail_msg("%s: %s", WRONG[i].yaml, err_msg(&unit.e));
		assert_string_equal(unit.e.notes.v[0].at ? unit.e.notes.v[0].at : "", WRONG[i].at);
	}
}
