/* Reads all members of an object in one pass, and looks each up in the table of its fields. */
#include "base/json/fields.h"

/* Sets a field to a value, or if value.p is NULL, to that of an absent member.  false: the value is
 * not what the field takes. */
static bool scan_set_field(const struct scan_field *f, struct span value, void *base,
                           struct arena *a)
{
	struct span *text = (void *)((char *)base + f->at);
	int64_t *number = (void *)((char *)base + f->at);
	switch (f->to) {
	case SCAN_TO_RAW:
		*text = value;
		return true;
	case SCAN_TO_TEXT:
		*text = (struct span){ NULL, 0 };
		return !value.p || scan_string(value, a, text);
	case SCAN_TO_INT:
		*number = -1;
		return !value.p || scan_int(value, 0, INT32_MAX, number);
	case SCAN_TO_TIME:
		*number = -1;
		return !value.p || scan_time_ms(value, number);
	case SCAN_TO_MEMBERS:
		break;
	}
	return false;
}

static void scan_clear_fields(const struct scan_field *fields, void *base)
{
	for (const struct scan_field *f = fields; f->key; f++) {
		if (f->to == SCAN_TO_MEMBERS)
			scan_clear_fields(f->of, base);
		else
			(void)scan_set_field(f, (struct span){ NULL, 0 }, base, NULL);
	}
}

/* Reads the members of an iteration to its end. */
static bool scan_read_fields(struct scan *s, const struct scan_field *fields, void *base,
                             struct arena *a)
{
	uint64_t seen = 0;
	bool good = true;
	for (struct span key, value; scan_key(s, &key);) {
		const struct scan_field *f = fields;
		while (f->key && scan_which(key, &f->key, 1) != 0)
			f++;
		uint64_t bit = UINT64_C(1) << (f - fields);
		bool first = f->key && !(seen & bit);
		seen |= bit;
		if (first && f->to == SCAN_TO_MEMBERS && scan_peek(s) == SCAN_OBJECT) {
			struct scan in = scan_enter(s);
			good &= scan_read_fields(&in, f->of, base, a);
			scan_leave(s, &in);
		} else if (!scan_value(s, &value)) {
			break;
		} else if (first && scan_type(value) != SCAN_NULL) {
			good &= scan_set_field(f, value, base, a);
		}
	}
	return good;
}

bool scan_fields(struct span object, const struct scan_field *fields, void *base, struct arena *a)
{
	struct scan s = scan_begin(object);
	scan_clear_fields(fields, base);
	return scan_read_fields(&s, fields, base, a);
}

bool scan_next_fields(struct scan *list, const struct scan_field *fields, void *base,
                      struct arena *a, bool *odd)
{
	struct span other;
	scan_clear_fields(fields, base);
	if (scan_peek(list) != SCAN_OBJECT) {
		(void)scan_value(list, &other); /* if it fails, the iteration ends */
		return false;
	}
	struct scan in = scan_enter(list);
	*odd = !scan_read_fields(&in, fields, base, a);
	scan_leave(list, &in);
	return true;
}
