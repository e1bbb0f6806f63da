#compdef rest-lit
# zsh completion for rest-lit
local -a before=("${(@)words[2,CURRENT - 1]}") found described
if compset -P 1 '--[a-z-]##='; then # --option=value
	before+=("${IPREFIX%=}")
fi
found=("${(@f)$(command rest-lit complete "${(@)before}" "${(Q)PREFIX}" </dev/null 2>/dev/null)}")
case $found[1] in
'') ;;
:command) _command_names -e ;;
:directory) _files -/ ;;
:file) _files ;;
*)
	described=("${(@)${(@)found//:/\\:}/$'\t'/:}")
	compset -P '*,' # after a comma, the next word
	_describe word described
	;;
esac
