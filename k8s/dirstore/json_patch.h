#pragma once
/* JSON patches (RFC 6902), as far as this program sends them: `test` and `replace`.  Pure; private
 * to k8s/. */
#include <jansson.h>

enum json_patched { PATCH_DONE, PATCH_TEST_FAILED, PATCH_MALFORMED };

/* Apply all operations, in order.  What is not PATCH_DONE leaves the object as it may be. */
enum json_patched json_patch_apply(json_t *object, const json_t *patch);
