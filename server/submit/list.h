#pragma once
/* Objects as one List of Kubernetes, as `kubectl create -f -` takes it. */
#include "base/err.h"
#include "base/object.h"

/* As JSON, without the final brace: `first`, if it is not empty, then the objects.  Appends. */
void list_json(struct str *out, struct span first, const struct objects *o);

/* JSON of ours as a YAML document.  Appends; out->full if it does not fit. */
void list_yaml(struct str *out, struct span json);
