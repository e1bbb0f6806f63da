# fish completion for rest-lit
function __rest_lit_words
	set -l before (commandline -opc)[2..]
	set -l last (commandline -ct)
	set -l prefix (string match -r -- '^--[a-z-]+=' $last) # --option=value
	if test -n "$prefix"
		set -a before (string trim -r -c = -- $prefix)
		set last (string replace -- $prefix '' $last)
	end
	set -l found (command rest-lit complete $before "$last" </dev/null 2>/dev/null)
	switch "$found[1]"
		case ''
		case :command
			complete -C "$last"
		case :directory
			__fish_complete_directories "$last" ''
		case :file
			__fish_complete_path "$last"
		case '*'
			printf '%s\n' "$prefix"$found
	end
end
complete -c rest-lit -f -a '(__rest_lit_words)'
