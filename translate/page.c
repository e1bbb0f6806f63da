/* Prints the tables of docs/TRANSLATION.md from the tables of variables, templates and overlays. */
#include "translate/render/bindings.h"
#include "translate/translate.h"

static const char *const TYPES[VARIABLE_TYPE_MAX] = {
	[VARIABLE_TEXT] = "text",   [VARIABLE_NUMBER] = "number", [VARIABLE_BOOL] = "boolean",
	[VARIABLE_MAP] = "mapping", [VARIABLE_LIST] = "elements", [VARIABLE_TEXTS] = "texts",
};

static void page_put_variable_rows(struct str *out, const struct variable_group *g)
{
	str_printf(out, "\n### %s\n\n| variable | type | from | rule |\n|---|---|---|---|\n",
	           g->title);
	for (size_t i = 0; i < g->n; i++) {
		const struct variable *h = &g->v[i];
		str_printf(out, "| `%s%s` | %s%s | %s | %s |\n", variable_is_list(h) ? "*" : "",
		           h->name, TYPES[h->type], h->optional ? ", may be absent" : "", h->source,
		           h->doc);
	}
}

static void page_put_variables(struct str *out)
{
	str_puts(out, "\n## Variables\n");
	for (size_t i = 0; i < N_VARIABLE_GROUPS; i++)
		page_put_variable_rows(out, VARIABLE_GROUPS[i]);
	struct settings settings;
	struct constant all[N_CONSTANTS];
	translate_settings_default(&settings);
	constants_fill(all, &settings);
	str_puts(out, "\n### Constants\n\n| variable | meaning |\n|---|---|\n");
	for (size_t i = 0; i < N_CONSTANTS; i++)
		str_printf(out, "| `%s` | %s |\n", all[i].name, all[i].doc);
}

static void page_put_templates(struct str *out)
{
	str_puts(out, "## Templates\n\n| file | result |\n|---|---|\n");
	for (enum template_id u = 0; u < TEMPLATE_MAX; u++)
		if (TEMPLATES[u].shape != PROG_MEMBERS)
			str_printf(out, "| `%s` | %s |\n", TEMPLATES[u].file, TEMPLATES[u].doc);
	str_puts(out, "\n## Overlays\n\nThey apply in this order.\n\n| file | over | when "
	              "|\n|---|---|---|\n");
	for (size_t i = 0; i < N_OVERLAYS; i++) {
		str_printf(out, "| `%s` |", OVERLAYS[i].file);
		for (size_t k = 0; OVERLAYS[i].units[k] != TEMPLATE_MAX; k++)
			if (TEMPLATES[OVERLAYS[i].units[k]].shape != PROG_MEMBERS)
				str_printf(out, " `%s`", TEMPLATES[OVERLAYS[i].units[k]].file);
		str_printf(out, " | %s |\n", OVERLAYS[i].doc);
	}
}

void translation_page(struct str *out)
{
	page_put_templates(out);
	page_put_variables(out);
}

void templates_page(struct str *out)
{
	int profile = 0;
	struct span text;
	const char *file = NULL;
	for (size_t i = 0; (file = template_nth(i, &profile, &text)) != NULL; i++) {
		str_printf(out, "--- # %s/%s\n", profile < 0 ? "common" : PROFILE_NAMES[profile],
		           file);
		str_span(out, text);
	}
}
