# bash completion for rest-lit
_rest_lit()
{
	local cur=${COMP_WORDS[COMP_CWORD]} before=$((COMP_CWORD - 1)) words
	# --option=value is three words.
	if [[ $cur == '=' ]]; then
		cur=
	elif [[ ${COMP_WORDS[before]} == '=' ]]; then
		before=$((before - 1))
	fi
	words=$(command rest-lit complete "${COMP_WORDS[@]:1:before}" "$cur" </dev/null 2>/dev/null | cut -f 1)
	COMPREPLY=()
	case $words in
	:*)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -A "${words#:}" -- "$cur")
		return
		;;
	esac
	# after a comma, the next word
	mapfile -t COMPREPLY < <(compgen -P "${cur%"${cur##*,}"}" -W "$words" -- "${cur##*,}")
}
complete -F _rest_lit rest-lit
