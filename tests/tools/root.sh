# Functions for minimal Debian systems in directories, sourced by bare and tests/packages/debian.  They
# need root, debootstrap and 4 GB.  root_free unmounts and removes all of them.
#
#   DEBIAN_BASE=DIR   copy this installation of the release instead
# shellcheck shell=bash
roots=()
mounts=()

# root_new DIR CODENAME - install this release with its updates in DIR, if there is none yet.  It is kept for
# a day in ~/.cache/rest-lit, because several suites begin with it.
root_new() {
	local base=${DEBIAN_BASE:-${XDG_CACHE_HOME:-$HOME/.cache}/rest-lit/$2}
	[ "$(id -u)" = 0 ] || { echo "$0: must be root" >&2; exit 1; }
	command -v debootstrap >/dev/null || { echo "$0: apt-get install debootstrap" >&2; exit 1; }
	mkdir -p "$1" && chmod 755 "$1" # other users need access, too
	roots+=("$1")
	[ ! -e "$1/etc/debian_version" ] || return 0
	mkdir -p "$(dirname "$base")"
	(
		flock 9
		[ -n "${DEBIAN_BASE-}" ] || [ -n "$(find "$base" -maxdepth 0 -mtime -1 2>/dev/null)" ] || root_install "$base" "$2"
		cp -a "$base/." "$1"
	) 9>"$base.lock" || exit
}

# root_install DIR CODENAME - from the mirror of this machine.
root_install() {
	local mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
		awk '$3 == "main" { print $1; exit }')
	mirror=${mirror:-http://deb.debian.org/debian} mirror=${mirror%/}
	echo "installing a minimal Debian, $2, in $1"
	rm -rf --one-file-system "$1" "$1.new"
	debootstrap --variant=minbase "$2" "$1.new" "$mirror" >"$1.log" || { tail "$1.log"; exit 1; }
	echo "deb $mirror $2 main" >"$1.new/etc/apt/sources.list"
	if [ "$2" = sid ]; then # its index is valid for a week, and a mirror may be older
		echo 'Acquire::Check-Valid-Until "false";' >"$1.new/etc/apt/apt.conf.d/99old"
	else
		printf 'deb %s main\n' "$mirror $2-updates" "$mirror-security $2-security" >>"$1.new/etc/apt/sources.list"
	fi
	root_mount "$1.new"
	root_run "$1.new" 'apt-get update && apt-get upgrade -y' >"$1.log" || { tail "$1.log"; root_free keep; exit 1; }
	root_free keep
	rm "$1.log"
	mv "$1.new" "$1" && touch "$1"
}

# root_mount DIR - mount what programs need.  User namespaces require that the directory is the root
# of a mount namespace, as in a container: they are forbidden below chroot.
root_mount() {
	local m
	mount --bind "$1" "$1" && mounts=("$1" "${mounts[@]}")
	for m in proc dev dev/pts; do
		if mount --bind "/$m" "$1/$m"; then mounts=("$1/$m" "${mounts[@]}"); fi
	done
}

# root_run DIR COMMAND - run a shell command in the directory, with a clean environment.
root_run() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
		unshare --mount sh -c 'cd "$0" && mkdir -p .host && pivot_root . .host && exec sh -c "$1"' "$1" \
		"umount -l /.host && $2"
}

# root_sources DIR - copy HEAD to /root/rest-lit.
root_sources() {
	rm -rf "$1/root/rest-lit"
	mkdir -p "$1/root/rest-lit"
	git archive HEAD | tar x -C "$1/root/rest-lit"
}

root_free() {
	local m
	for m in "${mounts[@]}"; do umount -l "$m"; done
	mounts=()
	[ "${1-}" = keep ] || rm -rf --one-file-system "${roots[@]}"
}
