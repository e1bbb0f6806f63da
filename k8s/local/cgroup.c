/* Limits by cgroup v2; see cgroup.h. */
#include "k8s/local/cgroup.h"
