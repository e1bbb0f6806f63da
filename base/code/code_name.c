#include "base/code/code.h"

#include "base/hash.h"

bool code_sha_ok(struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		if (!is_digit(text.p[i]) && !(text.p[i] >= 'a' && text.p[i] <= 'f'))
			return false;
	return text.n == CODE_SHA;
}

void code_object_name(char out[static CODE_OBJECT + 1], const char *user, struct span sha256)
{
	char hex[65];
	STR_AUTO text = STR_INIT(1024);
	str_puts(&text, user);
	str_char(&text, '\0');
	str_span(&text, sha256);
	sha256_hex(hex, str_view(&text));
	memcpy(out, "code-", 5);
	memcpy(out + 5, hex, 40);
	out[CODE_OBJECT] = '\0';
}
