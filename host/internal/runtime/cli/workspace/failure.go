package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// failed prints the error of an intent (WS-185) and returns the error that ends the command.
func (in *invocation) failed(err error) error {
	var e *contract.Error
	if !errors.As(err, &e) || in.ctx.Err() != nil {
		return err
	}
	code := exit.Code(e)
	if in.unserved(e) {
		e, code = in.notServed(e), exit.Environment
	}
	if tooLong := in.tooLong(e); tooLong != nil {
		e, code = tooLong, exit.Code(tooLong)
	}
	if in.Format() != "text" {
		in.Problem(e)
		return in.Quiet(code)
	}
	in.note("%s", in.failure(e))
	return in.Quiet(code)
}

// unserved reports whether no capability of the configuration serves the intent.
func (in *invocation) unserved(e *contract.Error) bool {
	reason, _ := e.Details.Key("reason").AsKeyword()
	return e.Type == "invalid-request" && reason == "intent/not-supported"
}

func (in *invocation) notServed(e *contract.Error) *contract.Error {
	return contract.Errorf("runtime/not-ready", "no capability of the configuration serves :%s", in.verb.name()).
		WithCause(e).WithHint("add the plugin \"workspace\" to ferment.hcl, or run the command where ferment.hcl has it")
}

// tooLong returns the error for a frame whose text does not fit into a request, so that the
// workspace never received it; nil if e is another error.
func (in *invocation) tooLong(e *contract.Error) *contract.Error {
	content := cmp.Or(plain(in.input.Key("content")), plain(in.input.Key("content/b64")))
	code, _ := e.Details.Key("code").AsKeyword()
	if len(content) <= edn.Body.String || code != "limit-string" && e.Type != "http/too-large" {
		return nil
	}
	return contract.Errorf("frame/too-large", "the text does not fit into a request: %s", e.Message).
		WithHint("put a shorter text, or several frames")
}

// failure returns an error as text: what failed, on which object, why, and the next command.
func (in *invocation) failure(e *contract.Error) string {
	var b strings.Builder
	b.WriteString(diag.Wrap(fmt.Sprintf("ferment %s: %s (:%s)", in.words, strings.TrimRight(message(e), "."), e.Type), 0, 2))
	for _, item := range listed(e.Details) {
		b.WriteString("\n  " + item)
	}
	for cause, depth := e.Cause, 0; cause != nil && depth < 3; cause, depth = cause.Cause, depth+1 {
		b.WriteString("\n" + diag.WrapLabeled("  cause: ", fmt.Sprintf("%s (:%s)", cause.FullMessage(), cause.Type)))
	}
	if next := in.next(e); next != "" {
		b.WriteString("\n" + diag.WrapLabeled("  next: ", next))
	}
	return b.String()
}

// message returns the message of an error without the node of the plan that the host created for
// the request.
func message(e *contract.Error) string {
	return strings.TrimPrefix(e.FullMessage(), "node act: ")
}

// next returns the next command: that of the error if it has one, otherwise that of steps,
// otherwise the help of the verb for invalid input; empty if there is none.
func (in *invocation) next(e *contract.Error) string {
	row, _ := contract.Lookup(e.Type)
	own, _ := e.Details.Key("hint").AsString()
	if own == "" && e.Hint != row.Hint {
		own = e.Hint
	}
	hint := cmp.Or(in.meantFile(e), own, in.step(e), e.Hint)
	if strings.Contains(hint, "the details name") { // people see the message, not the details
		hint = ""
	}
	if node := in.failedNode(e); node != "" {
		hint = strings.ReplaceAll(hint, " PATH`", " "+quoted(node)+"`")
	}
	hint = in.there(inFlags.Replace(hint))
	if hint == "" && exit.Code(e) == exit.Usage {
		hint = fmt.Sprintf("\"ferment %s --help\" shows its usage", in.words)
	}
	return hint
}

// quotedCommand matches a quoted command of this package in a text.
var quotedCommand = regexp.MustCompile(`"ferment (workspace|context) [^"]+`)

// there adds --workspace to the commands in a hint, if the failed command had it.
func (in *invocation) there(hint string) string {
	if in.workspace == "" {
		return hint
	}
	option := " --workspace " + quoted(in.workspace)
	if strings.HasPrefix(hint, "ferment ") {
		return hint + option
	}
	return quotedCommand.ReplaceAllStringFunc(hint, func(command string) string { return command + option })
}

// inFlags replaces keys of a request in a hint by the flags for them.
var inFlags = strings.NewReplacer("`", "\"", ":include #{:deleted}", "--include-deleted", ":as-of", "--as-of", ":cursor", "--cursor",
	":deadline-ms", "--timeout",
	":on-unreadable :skip", "--on-unreadable skip", ":max-bytes", "--max-bytes", ":max-frames", "--max-frames", ":children :build", "--recursive",
	":agent/id", "--agent", ":expect/head", "--expect-head", ":on-conflict", "--on-conflict", ":force? true", "--force")

// steps are the hints for errors, most of them commands. NODE is the node that the error is about.
var steps = map[string]string{
	"workspace/unscanned":       "ferment workspace scan",
	"path/not-in-tree":          "ferment workspace ignore explain NODE",
	"node/not-found":            "ferment context get-node",
	"node/deleted":              "ferment workspace list-deleted",
	"frame/not-found":           "ferment context list-frames NODE",
	"frame/no-head":             "ferment context list-frames NODE",
	"frame/basis-mismatch":      "ferment context get-node NODE",
	"frame/immutable":           "ferment context list-frames NODE",
	"head/conflict":             "ferment context list-frames NODE",
	"synthesis/child-not-ready": "ferment context synthesize NODE --recursive",
	"synthesis/not-directory":   "ferment context get-node NODE",
	"agent/unknown":             "ferment context agents list",
	"agent/prompt-missing":      "ferment context agents validate",
	"agent/role-denied":         "ferment context agents list",
	"workspace/exists":          "ferment workspace status",
	"generate/denied":           "choose another path, or change never_send in the configuration of the workspace",
	"generate/binary":           "choose a text file",
	"generate/too-large":        "choose a smaller file",
	"provider/not-configured":   "set the key or the address of the provider in ferment.hcl",
	"seq/unknown":               "ferment workspace status",
	"seq/compacted":             "ferment workspace snapshot list",
	"store/corrupt":             "ferment workspace validate",
	"store/read-only":           "ferment workspace validate",
	"import/conflict":           "ferment workspace import FILE --on-conflict keep-local",
}

// meantFile returns the hint for the name of a file that was used as an id or as a snapshot; empty
// if there is no such file.
func (in *invocation) meantFile(e *contract.Error) string {
	if e.Type == "node/not-found" && in.takesNode() && len(in.arguments) > 0 { // it was used as an id
		if file := in.arguments[0]; isID(file) && in.existing(file) {
			return fmt.Sprintf("write %s for the file", quoted("./"+file))
		}
	}
	if e.Type == "seq/unknown" {
		for _, name := range in.arguments {
			if info, err := os.Stat(filepath.Join(in.Dir, name)); err == nil && info.Mode().IsRegular() && !isFile(name) {
				return fmt.Sprintf("write %s for the file", quoted("./"+name))
			}
		}
	}
	return ""
}

// step returns the hint for an error; empty if its node is not known.
func (in *invocation) step(e *contract.Error) string {
	step := steps[e.Type]
	if strings.Contains(step, " NODE") {
		node := in.failedNode(e)
		if node == "" {
			return ""
		}
		step = strings.Replace(step, "NODE", quoted(node), 1)
	}
	return step
}

// existing reports whether a path exists, relative to the directory of relative paths.
func (in *invocation) existing(path string) bool {
	_, err := os.Lstat(in.at.absolute(path))
	return err == nil
}

// failedNode returns the node that an error is about: the argument of the command if that is a
// node, otherwise the path in the details of the error.
func (in *invocation) failedNode(e *contract.Error) string {
	if !in.takesNode() {
		path, _ := e.Details.Key("path").AsString()
		return path
	}
	if len(in.arguments) == 0 {
		return "."
	}
	return in.arguments[0]
}

// quoted returns a word in the syntax of a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`&|;<>()*?[]{}!#~") {
		return name(word)
	}
	return "'" + strings.ReplaceAll(name(word), "'", `'\''`) + "'"
}

// listed returns the objects in the details of an error, one per line.
func listed(details edn.Value) []string {
	var out []string
	for _, key := range []string{"paths", "matches", "children", "findings", "conflicts", "allowed"} {
		v := details.Key(key)
		shown := 0
		for item := range v.Elems() {
			if shown == maxListed {
				out = append(out, fmt.Sprintf("and %d more", v.Len()-shown))
				break
			}
			out = append(out, words(item))
			shown++
		}
	}
	return out
}
