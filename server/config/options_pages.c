/* Texts generated from the table of options: help, docs/OPTIONS.md, the schema of the file. */
#include "base/wrap.h"
#include "server/config/options.h"

enum { WIDTH = 80, INDENT = 31, TEXT_MAX = 512 };

/* The default with its unit, if it has one. */
static void put_default(struct str *out, const struct option *o, const char *before,
                        const char *after)
{
	STR_AUTO value = STR_INIT(TEXT_MAX);
	option_default(&value, o);
	if (value.n && o->type != OPTION_SWITCH)
		str_printf(out, "%s%s%s%s%s", before, str_c(&value), o->unit ? " " : "",
		           o->unit ?: "", after);
}

static void option_help(struct str *out, const struct option *o)
{
	str_puts(out, o->help);
	if (o->names) {
		str_puts(out, ": ");
		o->names(out, ", ");
	}
	put_default(out, o, " [", "]");
}

void options_help(struct str *out, unsigned command, bool all)
{
	bool hidden = false;
	for (enum option_group g = 0; g < GROUP_MAX; g++) {
		bool title = false;
		for (const struct option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++) {
			bool shown = all || o->main;
			if (o->group != g || !(o->commands & command))
				continue;
			hidden |= !shown;
			if (!shown)
				continue;
			if (!title)
				str_printf(out, "%s:\n", OPTION_GROUPS[g]);
			title = true;
			STR_AUTO flag = STR_INIT(TEXT_MAX);
			STR_AUTO text = STR_INIT(TEXT_MAX);
			str_printf(&flag, "  --%s%s%s", o->name, o->value ? " " : "",
			           o->value ?: "");
			option_help(&text, o);
			str_printf(out, "%-*s", INDENT, str_c(&flag));
			if (flag.n >= INDENT)
				str_printf(out, "\n%*s", INDENT, "");
			str_wrap(out, str_view(&text), INDENT, WIDTH);
		}
	}
	if (hidden)
		str_puts(out, "  --help-all                   all options\n");
}

static void commands_text(struct str *out, unsigned commands)
{
	static const char *const NAMES[] = {
		"serve",   "translate", "validate",   "token", "submit",  "jobs",   "show",
		"stop",    "run",       "logs",       "wait",  "events",  "delete", "resubmit",
		"convert", "backup",    "controller", "fetch", "check",   "top",    "usage",
		"report",  "keep",      "exec",       "open",  "release", "login",  "logout"
	};
	const char *between = "";
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		if (!(commands & 1u << i))
			continue;
		str_printf(out, "%s%s", between, NAMES[i]);
		between = ", ";
	}
}

static void bounds_text(struct str *out, const struct option *o)
{
	if (o->type == OPTION_NUMBER || o->type == OPTION_BYTES)
		str_printf(out, "%ld to %ld%s%s", (long)o->min, (long)o->max, o->unit ? " " : "",
		           o->unit                   ? o->unit
		           : o->type == OPTION_BYTES ? " bytes"
		                                     : "");
	else if (o->type == OPTION_SWITCH)
		str_puts(out, "true, false");
	if (o->names)
		o->names(out, ", ");
	const char *between = "";
	for (const char *const *c = o->choices; c && *c; c++) {
		str_printf(out, "%s%s", between, *c);
		between = **c ? ", " : "";
	}
}

static void page_row(struct str *out, const struct option *o)
{
	str_printf(out, "| `--%s` | ", o->name);
	if (!o->flag_only && !o->no_variable) {
		str_char(out, '`');
		option_variable(out, o->name);
		str_char(out, '`');
	}
	str_puts(out, " | ");
	STR_AUTO value = STR_INIT(TEXT_MAX);
	option_default(&value, o);
	if (value.n)
		str_printf(out, "`%s`", str_c(&value));
	str_puts(out, " | ");
	bounds_text(out, o);
	str_puts(out, " | ");
	commands_text(out, o->commands);
	str_printf(out, " | %s |\n", o->help);
}

static const char TABLE_HEAD[] = "| flag | variable | default | values | commands | |\n"
				 "|---|---|---|---|---|---|\n";

void options_page(struct str *out)
{
	for (enum option_group g = 0; g < GROUP_MAX; g++) {
		str_printf(out, "%s## %s\n\n%s", g ? "\n" : "", OPTION_GROUPS[g], TABLE_HEAD);
		for (const struct option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++)
			if (o->group == g)
				page_row(out, o);
	}
}

static void number_schema(struct str *out, const struct option *o)
{
	int64_t min = o->type == OPTION_BYTES && o->min < MIB ? MIB : o->min; /* without a unit */
	str_printf(out, "\"type\": \"integer\", \"minimum\": %ld, \"maximum\": %ld", (long)min,
	           (long)o->max);
}

static void type_schema(struct str *out, const struct option *o)
{
	switch (o->type) {
	case OPTION_TEXT:
		str_puts(out, "\"type\": \"string\"");
		break;
	case OPTION_CHOICE:
		str_puts(out, "\"enum\": [");
		for (const char *const *c = o->choices; *c; c++)
			str_printf(out, "%s\"%s\"", c == o->choices ? "" : ", ", *c);
		str_char(out, ']');
		break;
	case OPTION_NUMBER:
		number_schema(out, o);
		break;
	case OPTION_BYTES:
		str_puts(out, "\"anyOf\": [{ ");
		number_schema(out, o);
		str_puts(
		    out,
		    " }, { \"type\": \"string\", \"pattern\": \"^[0-9]+([KMGTkmgt]i?[Bb]?)?$\" }]");
		break;
	case OPTION_SWITCH:
		str_puts(out, "\"type\": \"boolean\"");
		break;
	case OPTION_LIST: /* has no key */
	case OPTION_TYPE_MAX:
		break;
	}
}

void options_schema(struct str *out)
{
	str_puts(out, "{\n"
	              "\t\"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
	              "\t\"title\": \"The file that rest-lit reads with --config\",\n"
	              "\t\"$comment\": \"Generated from the table in server/config/options.c\",\n"
	              "\t\"type\": \"object\",\n"
	              "\t\"additionalProperties\": false,\n"
	              "\t\"properties\": {");
	const char *between = "";
	for (const struct option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++) {
		if (o->flag_only || strcmp(o->name, "config") == 0)
			continue;
		str_printf(out, "%s\n\t\t\"%s\": { ", between, o->name);
		type_schema(out, o);
		str_puts(out, ", \"default\": ");
		if (o->type == OPTION_BYTES)
			str_int(out, o->number);
		else if (o->type == OPTION_TEXT || o->type == OPTION_CHOICE)
			str_json(out, span_of(o->text));
		else
			option_default(out, o);
		str_puts(out, ", \"description\": ");
		str_json(out, span_of(o->help));
		str_puts(out, " }");
		between = ",";
	}
	str_puts(out, "\n\t}\n}\n");
}

/* ---- manual pages ---- */

/* A line that begins with a dot or a quote would be a request; a bare hyphen is not copied as one.
 */
void roff_text(struct str *out, const char *text)
{
	bool first = true;
	for (const char *p = text; *p; p++) {
		if (first && (*p == '.' || *p == '\''))
			str_puts(out, "\\&");
		if (*p == '\\')
			str_puts(out, "\\e");
		else if (*p == '-' || *p == '\'' || *p == '`' || *p == '~' || *p == '^')
			str_printf(out, *p == '-' ? "\\-" : "\\(%s",
			           *p == '\''  ? "aq"
			           : *p == '`' ? "ga"
			           : *p == '~' ? "ti"
			                       : "ha");
		else
			str_char(out, *p);
		first = *p == '\n';
	}
}

static void option_manual(struct str *out, const struct option *o)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_puts(out, ".TP\n\\fB\\-\\-");
	roff_text(out, o->name);
	if (o->value) {
		str_puts(out, "\\fR \\fI");
		roff_text(out, o->value);
	}
	str_puts(out, "\\fR\n");
	option_help(&text, o);
	roff_text(out, str_c(&text));
	str_char(out, '\n');
}

void options_manual(struct str *out, unsigned command)
{
	str_puts(out, ".SH OPTIONS\n");
	for (enum option_group g = 0; g < GROUP_MAX; g++) {
		bool title = false;
		for (const struct option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++) {
			if (o->group != g || !(o->commands & command))
				continue;
			if (!title) {
				str_puts(out, ".SS ");
				roff_text(out, OPTION_GROUPS[g]);
				str_char(out, '\n');
			}
			title = true;
			option_manual(out, o);
		}
	}
}
