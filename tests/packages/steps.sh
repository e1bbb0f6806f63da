# Tests as commands, counted, for scripts of this folder.
# shellcheck shell=bash
passed=0 failed=0

# is NAME COMMAND... - a test.
is() {
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok $name ($((SECONDS - start)) s)"
	else
		failed=$((failed + 1))
		echo "FAIL $name"
	fi
}
finish() {
	echo "$passed passed, $failed failed"
	[ $failed = 0 ]
	exit
}
