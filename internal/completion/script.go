package completion

import "strings"

// scripts have a shell ask `PROGRAM __complete WORD...`, which prints a line for each candidate: the word,
// a tab and what it is. The last WORD is the one to complete. PROGRAM and IDENT stand for the program, the
// latter as a shell's names may be.
var scripts = map[string]string{
	"bash": `_IDENT() {
    local IFS=$'\n' line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(PROGRAM __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _IDENT PROGRAM
`,
	// As a file in $fpath it is the function itself the first time.
	"zsh": `#compdef PROGRAM
_IDENT() {
    local -a candidates
    local line
    while IFS= read -r line; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(PROGRAM __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe PROGRAM candidates
    else
        _files
    fi
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _IDENT "$@"
else
    compdef _IDENT PROGRAM
fi
`,
	"fish": `function __IDENT_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates (PROGRAM __complete $words[2..-1] 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c PROGRAM -f -a '(__IDENT_complete)'
`,
}

// Script is what a shell (bash, zsh or fish) loads to complete a program's command lines, "" for another.
func Script(program, shell string) string {
	return strings.NewReplacer("PROGRAM", program, "IDENT", strings.ReplaceAll(program, "-", "_")).Replace(scripts[shell])
}
