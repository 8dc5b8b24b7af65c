//go:build external

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// CLI-006: the scripts complete in their shells.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	w := site(t)
	w.write("bash.sh", `# what the package bash-completion gives
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
compopt() { :; }
source <(ferment completion bash)
complete -p ferment >/dev/null
COMP_WORDS=(ferment plugin inspect mi) COMP_CWORD=3 COMP_LINE="ferment plugin inspect mi" COMP_POINT=25 COMP_TYPE=9
__start_ferment
printf '%s\n' "${COMPREPLY[@]}"
`)
	w.write("fish.fish", "ferment completion fish | source\ncomplete -C 'ferment plugin inspect mi'\n")
	// zsh completes only on a terminal: its zpty module provides one.
	w.write("zsh.zsh", `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1="> "; autoload -U compinit && compinit -u -D && source <(ferment completion zsh) && compdef _ferment ferment && print re""ady'
zpty -r -m z line '*ready*' || exit 1
zpty -w -n z $'ferment plugin inspect mi\t'
zpty -r -m z line '*inspect mine*' || exit 1
print -r -- mine
zpty -d z
`)
	path := filepath.Dir(built.ferment) + ":"
	for i, v := range w.env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			w.env[i] = "PATH=" + path + rest
		}
	}
	w.env = append(w.env, "TERM=dumb")
	for shell, script := range map[string]string{"bash": "bash.sh", "zsh": "zsh.zsh", "fish": "fish.fish"} {
		t.Run(shell, func(t *testing.T) {
			got := w.launch("", shell, script).wait()
			assert.Equal(t, 0, got.code, got.stderr)
			assert.Equal(t, "mine", strings.TrimSpace(got.stdout))
			assert.Empty(t, got.stderr)
		})
	}
}
