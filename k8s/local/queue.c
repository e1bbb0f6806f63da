/* The scheduler; see queue.h. */
#include "k8s/local/queue.h"
