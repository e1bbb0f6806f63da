#compdef rest-lit
# zsh completion for rest-lit
local -a before=("${(@)words[2,CURRENT - 1]}") found described
if compset -P 1 '--[a-z-]##='; then # --option=value
	before+=("${IPREFIX%=}")
fi
found=("${(@f)$(command rest-lit complete "${(@)before}" "$PREFIX" 2>/dev/null)}")
case $found[1] in
'') ;;
:command) _command_names -e ;;
:directory) _files -/ ;;
:file) _files ;;
:job)
	compadd -- $(command rest-lit jobs --timeout 2 --limit 1000 2>/dev/null |
		awk 'NR > 1 && $2 "~" $1 ~ /^[A-Za-z0-9._~-]+$/ {
			print $2 "~" $1; if ($2 == ENVIRON["USER"]) print $1 }')
	;;
*)
	described=("${(@)${(@)found//:/\\:}/$'\t'/:}")
	compset -P '*,' # after a comma, the next word
	_describe word described
	;;
esac
