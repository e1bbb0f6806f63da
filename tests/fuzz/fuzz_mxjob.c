#include "tests/fuzz/pods.h"

FUZZ(text)
{
	pods_run(DIALECT_MXJOB, text);
}
