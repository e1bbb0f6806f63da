#include "tests/fuzz/pods.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	pods_run(DIALECT_MXJOB, (struct span){ (const char *)data, n });
	return 0;
}
