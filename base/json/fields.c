#include "base/json/fields.h"

#include <assert.h>

/* value.p NULL: absent.  false: it is not what the field takes. */
static bool field_set(const struct scan_field *f, struct span value, void *base, struct arena *a)
{
	void *at = (char *)base + f->at;
	enum scan_type type = scan_type(value);
	bool absent = type == SCAN_NONE || type == SCAN_NULL;
	switch (f->to) {
	case SCAN_TO_RAW:
		*(struct span *)at = absent ? (struct span){ NULL, 0 } : value;
		return true;
	case SCAN_TO_TEXT:
		*(struct span *)at = SPAN("");
		return absent || scan_string(value, a, at);
	case SCAN_TO_INT:
		*(int64_t *)at = -1;
		return absent || scan_int(value, 0, INT32_MAX, at);
	case SCAN_TO_TIME:
		*(int64_t *)at = -1;
		return absent || scan_time_ms(value, at);
	case SCAN_TO_BOOL:
		*(bool *)at = false;
		return absent || scan_bool(value, at);
	case SCAN_TO_MEMBERS:
		return scan_fields(value, f->of, base, a) && (absent || type == SCAN_OBJECT);
	}
	return false;
}

bool scan_fields(struct span object, const struct scan_field *fields, void *base, struct arena *a)
{
	enum { FIELDS_MAX = 16 };
	struct span v[FIELDS_MAX];
	const char *keys[FIELDS_MAX] = { NULL };
	size_t n = 0;
	bool good = true;
	for (; fields[n].key; n++) {
		assert(n < FIELDS_MAX);
		keys[n] = fields[n].key;
	}
	scan_members(object, keys, v, n);
	for (size_t i = 0; i < n; i++)
		good &= field_set(&fields[i], v[i], base, a);
	return good;
}
