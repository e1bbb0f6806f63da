#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>

#include "k8s/local/images_internal.h"
#include "k8s/local/words.h"
#include "k8s/transport/reply.h"

enum { MANIFEST_WORDS_MAX = 1000 };

/* "sha256:" and 64 digits of hex: the only names that become paths. */
static bool manifest_digest(const char *text, char hex[static STORE_HEX])
{
	if (strncmp(text, "sha256:", 7) != 0 || strlen(text) != 7 + STORE_HEX - 1)
		return false;
	for (const char *p = text + 7; *p; p++) {
		if (hex_value(*p) < 0)
			return false;
	}
	memcpy(hex, text + 7, STORE_HEX);
	return true;
}

/* The name that Go has for the processor. */
static const char *manifest_processor(struct utsname *u)
{
	static const char *const NAMES[][2] = { { "x86_64", "amd64" }, { "aarch64", "arm64" } };
	if (uname(u) != 0)
		return "amd64";
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		if (strcmp(u->machine, NAMES[i][0]) == 0)
			return NAMES[i][1];
	}
	return u->machine; /* ppc64le, s390x, riscv64 */
}

static int manifest_choose(const json_t *list, char digest[static STORE_HEX], const char **why)
{
	struct utsname u;
	const char *processor = manifest_processor(&u);
	size_t i;
	const json_t *entry;
	json_array_foreach (list, i, entry) {
		const json_t *platform = json_object_get(entry, "platform");
		if (strcmp(reply_text(platform, "os"), "linux") == 0 &&
		    strcmp(reply_text(platform, "architecture"), processor) == 0 &&
		    manifest_digest(reply_text(entry, "digest"), digest))
			return 1;
	}
	*why = "has nothing for Linux on this processor";
	return -1;
}

int images_manifest_read(struct span text, char digest[static STORE_HEX], uint64_t *bytes,
                         const char **why)
{
	JSON_AUTO *manifest = reply_parse(text);
	const json_t *list = json_object_get(manifest, "manifests");
	const json_t *layers = json_object_get(manifest, "layers");
	if (json_is_array(list))
		return manifest_choose(list, digest, why);
	*why = "is not one of Docker (version 2) or OCI";
	if (!json_is_array(layers))
		return -1;
	*bytes = 0;
	size_t i;
	const json_t *layer;
	json_array_foreach (layers, i, layer) {
		json_int_t n = json_integer_value(json_object_get(layer, "size"));
		if (n < 0 || n > INT64_MAX / 2 || *bytes > INT64_MAX / 2)
			return -1;
		*bytes += (uint64_t)n;
	}
	return 0;
}

static json_t *layout_blob(int layout, const char *digest, struct arena *a, struct span *text)
{
	char hex[STORE_HEX];
	if (!manifest_digest(digest, hex))
		return NULL;
	*text = images_file_read(layout, arena_printf(a, "blobs/sha256/%s", hex), a);
	return reply_parse(*text);
}

int images_layout_config(int layout, struct arena *a, struct span *config)
{
	JSON_AUTO *index = reply_parse(images_file_read(layout, "index.json", a));
	const json_t *first = json_array_get(json_object_get(index, "manifests"), 0);
	JSON_AUTO *manifest = layout_blob(layout, reply_text(first, "digest"), a, config);
	const json_t *about = json_object_get(manifest, "config");
	JSON_AUTO *object = layout_blob(layout, reply_text(about, "digest"), a, config);
	return object ? 0 : -1;
}

void images_config_read(struct span text, struct arena *a, struct images_status *out)
{
	JSON_AUTO *object = reply_parse(text);
	const json_t *config = json_object_get(object, "config");
	const json_t *list = json_object_get(config, "Env");
	const char *dir = reply_text(config, "WorkingDir");
	struct words env = { .a = a };
	for (size_t i = 0; i < json_array_size(list) && env.n < MANIFEST_WORDS_MAX; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (word && strchr(word, '='))
			words_add(&env, arena_dup(a, span_of(word)));
	}
	out->env = env.v;
	out->directory = *dir == '/' ? arena_dup(a, span_of(dir)) : NULL;
}

/* skopeo: `time="..." level=fatal msg="text with \" and \\"`; umoci: lines with a symbol. */
const char *images_log_reason(struct span log, struct arena *a)
{
	enum { REASON_MAX = 400 };
	log = span_trim(log);
	size_t line = 0;
	for (size_t i = 0; i < log.n; i++) {
		if (log.p[i] == '\n')
			line = i + 1;
	}
	log = span_from(log, line);
	size_t at = span_find(log, 0, "msg=\"");
	STR_AUTO out = STR_INIT(REASON_MAX);
	if (at != SIZE_MAX)
		log = span_from(log, at + 5);
	else
		log = span_trim(log);
	for (size_t i = 0; i < log.n && !out.full; i++) {
		char c = log.p[i];
		if (at != SIZE_MAX && c == '"')
			break;
		if (at != SIZE_MAX && c == '\\' && i + 1 < log.n)
			c = log.p[++i];
		bool control = (unsigned char)c < ' ';
		str_char(&out, control ? ' ' : c); /* NOLINT(bugprone-narrowing-conversions) */
	}
	struct span reason = span_cut(str_view(&out), REASON_MAX);
	return reason.n ? arena_dup(a, reason) : "it gives no reason";
}
