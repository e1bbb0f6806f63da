/* The inventory of this machine; see resources.h. */
#include "k8s/local/resources.h"
