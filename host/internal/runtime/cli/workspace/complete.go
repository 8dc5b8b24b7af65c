package workspace

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// complete registers the completions for shells: paths of the workspace for a NODE, and for flags
// that have one.
func (v *verb) complete(cmd *cobra.Command, sh *Shell, c *common) {
	paths := func(words ...string) cobra.CompletionFunc {
		return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return locate(sh.Dir, c.workspace).offer(prefix, words...)
		}
	}
	if v.takesNode() {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // a file, if anything
			}
			return paths()(cmd, args, prefix)
		}
	}
	for _, f := range v.flags {
		switch {
		case f.name == "source":
			_ = cmd.RegisterFlagCompletionFunc(f.name, paths("current", "parent", "siblings")) // fails only for an unknown flag
		case f.kind == kindPath || f.kind == kindPaths:
			_ = cmd.RegisterFlagCompletionFunc(f.name, paths())
		}
	}
}

// offer returns the words and the paths that begin with a prefix, one level deep. A directory ends
// with a slash, so that it can be continued.
func (p place) offer(prefix string, words ...string) (list []string, directive cobra.ShellCompDirective) {
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			list = append(list, w)
		}
	}
	dir, begun := filepath.Split(prefix)
	entries, _ := os.ReadDir(p.absolute(dir)) // without entries there are no candidates
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), begun) || e.Name() == ".git" || e.Name() == filepath.Dir(filepath.Dir(storeFile)) {
			continue
		}
		at := dir + e.Name()
		if e.IsDir() {
			at += string(filepath.Separator)
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		list = append(list, at)
	}
	return list, directive
}
