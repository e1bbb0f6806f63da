#!/bin/sh
# examples.sh FILE... - jobs as a JSON array of {name, title, text}.  The title is the first phrase of
# the comment in the first line.
json() { # stdin as a JSON string
	printf '"'
	sed -e 's/\\/\\\\/g; s/"/\\"/g; s/	/\\t/g; s/$/\\n/' | tr -d '\n'
	printf '"'
}
comma='['
for file; do
	printf '%s{"name":"%s","title":' "$comma" "${file##*/}"
	sed -E 's/^(#|\/\/) *//; s/[:.]( .*)?$//; q' "$file" | json | sed 's/\\n"$/"/'
	printf ',"text":'
	json <"$file"
	printf '}'
	comma=,
done
echo ']'
