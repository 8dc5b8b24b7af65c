package scaffold

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Project describes the project of a new plugin.
type Project struct {
	// Name is the name of the plugin, of its module and of its folder.
	Name string
	// Kind is one of Kinds, Lang one of Langs.
	Kind, Lang string
	// Interpreter is the program that runs a plugin in Python or Node on this machine.
	Interpreter string
	// SDKVersion is the version of the SDK that a Go module requires.
	SDKVersion string
	// Local is a checkout that replaces the SDK; empty: none.
	Local string
}

// The languages of a project.
const (
	Go     = "go"
	Python = "python"
	Node   = "node"
)

// Kinds returns the kinds of capability with templates.
func Kinds() []string { return []string{"solver", "llm", "judge", "checker", "tool"} }

// Langs returns the languages with templates.
func Langs() []string { return []string{Go, Python, Node} }

// projectName matches names that are valid as keyword namespace, folder, Go module and npm package.
var projectName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// maxName is the maximum length of a name, so that names and derived ids are readable in a table.
const maxName = 40

// Check returns an input/invalid error with one clause for each problem of p; nil if there is none.
func (p Project) Check() error {
	var wrong []string
	if len(p.Name) > maxName || !projectName.MatchString(p.Name) {
		wrong = append(wrong,
			fmt.Sprintf("the name %q is not 1 to %d of a-z and 0-9 in words joined by -, beginning with a letter",
				p.Name, maxName))
	}
	if language.ReservedNamespace(p.Name) {
		wrong = append(wrong, fmt.Sprintf("the name %q is a namespace of Ferment, choose another", p.Name))
	}
	for _, word := range []struct {
		what, got string
		known     []string
	}{{"kind", p.Kind, Kinds()}, {"language", p.Lang, Langs()}} {
		if !slices.Contains(word.known, word.got) {
			text := fmt.Sprintf("unknown %s %q: expected one of %s", word.what, word.got,
				strings.Join(word.known, ", "))
			if near := contract.Nearest(word.got, word.known); near != "" {
				text += "; did you mean " + near + "?"
			}
			wrong = append(wrong, text)
		}
	}
	if len(wrong) > 0 {
		return contract.Errorf("input/invalid", "new plugin: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// sample is the capability of a kind with an example call.
type sample struct {
	Capability, Intent string
	// Try is an input, Answer a part of its output, both in EDN.
	Try, Answer string
}

func (p Project) sample() sample {
	switch p.Kind {
	case "llm":
		return sample{p.Name + "/model", "text/respond", `{:prompt "one two"}`, `:text "one two"`}
	case "judge":
		return sample{p.Name + "/judge", "eval/grade", `{:task/result {:out {:text "Short and clear."}}}`, `:score 1`}
	case "checker":
		return sample{p.Name + "/check", p.Name + "/check", `{:text "short"}`, `:ok? true`}
	case "solver":
		return sample{p.Name + "/solver", p.Name + "/solve", `{:n 6}`, `:solutions 4`}
	}
	return sample{p.Name + "/tool", p.Name + "/count", `{:text "to be or not to be"}`, `:distinct 4`}
}

// Try returns a command that calls the plugin after it is built.
func (p Project) Try() string {
	s := p.sample()
	return fmt.Sprintf("ferment act %s '%s'", s.Intent, s.Try)
}
