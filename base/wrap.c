#include "base/wrap.h"

void str_wrap(struct str *out, struct span text, size_t indent, size_t width)
{
	size_t column = indent;
	size_t n;
	for (size_t i = 0; i < text.n; i += n + 1) {
		bool broken = i > 0 && text.p[i - 1] == '\n';
		n = 0;
		while (i + n < text.n && text.p[i + n] != ' ' && text.p[i + n] != '\n')
			n++;
		if (broken || (column > indent && column + 1 + n > width)) {
			str_printf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			str_char(out, ' ');
			column++;
		}
		str_put(out, text.p + i, n);
		column += n;
	}
	str_char(out, '\n');
}
