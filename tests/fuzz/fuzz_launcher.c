#include "tests/fuzz/pods.h"

FUZZ(text)
{
	pods_run(DIALECT_LAUNCHER, text);
}
