#include "tests/fuzz/pods.h"

FUZZ(text)
{
	pods_run("mxjob", text);
}
