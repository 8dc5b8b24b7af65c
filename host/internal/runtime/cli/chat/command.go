package chat

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// command is a line that begins with a slash. #N is turn N of the conversation.
type command struct {
	name, args, about string
	run               func(t *Talk, ctx context.Context, arg string, show func(Event)) error
}

// commands returns the commands in the order of the help.
func commands() []command {
	return []command{
		{"help", "", "list the commands and the keys", (*Talk).help},
		{"regenerate", "[#N]", "another answer in place of the last one, or of turn N", (*Talk).regenerate},
		{"edit", "[#N] [TEXT]",
			"replace your last message, or turn N, and have it answered; without a text, put the present one into the input",
			(*Talk).edit},
		{"undo", "", "go back to before the last change", (*Talk).undo},
		{"branch", "", "list the last turns with their alternatives", (*Talk).branch},
		{"select", "[#N] [K]", "use alternative K of the last answer, or of turn N; without K, list them", (*Talk).choose},
		{"fork", "[#N] [NAME]", "go on in a copy of the conversation, up to turn N", (*Talk).fork},
		{"model", "[NAME | default]", "show the models, or choose one", (*Talk).choosing},
		{"discard", "", "delete the messages without an answer", (*Talk).discard},
		{"cost", "", "show tokens and costs of the answers of this program", (*Talk).cost},
		{"gates", "", "show the verdicts about the last answer", (*Talk).gates},
		{"export", "FILE", "write the conversation to a new file: .md, .edn or .json", (*Talk).export},
		{"quit", "", "end", (*Talk).quit},
	}
}

func names() []string {
	var out []string
	for _, c := range commands() {
		out = append(out, c.name)
	}
	return out
}

func find(name string) *command {
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// commandOf splits a line into the name of a command and its argument, which begins after one
// blank; ok is false if the line is not a command.
func commandOf(line string) (name, arg string, ok bool) {
	_, rest := indented(line)
	rest, ok = strings.CutPrefix(rest, "/")
	if !ok || strings.HasPrefix(rest, "/") {
		return "", "", false
	}
	name, arg = cutBlank(rest)
	return name, arg, true
}

// numbered splits an argument that begins with #N. The rest begins after one blank. ok is false for
// other arguments.
func numbered(arg string) (number, rest string, ok bool) {
	_, written := indented(arg)
	if number, ok = strings.CutPrefix(written, "#"); !ok {
		return "", arg, false
	}
	number, rest = cutBlank(number)
	return number, rest, true
}

func (t *Talk) help(_ context.Context, _ string, show func(Event)) error {
	var rows [][2]string
	for _, c := range commands() {
		rows = append(rows, [2]string{strings.TrimSpace("/" + c.name + " " + c.args), c.about})
	}
	show(Note{aligned(rows) + "\n\nEnter sends; Alt+Enter, or \\ at the end of a line, begins a new line. " +
		"Up and Down recall earlier messages. Ctrl-C cancels an answer; twice on an empty input it ends, as Ctrl-D does."})
	return nil
}

func (t *Talk) quit(_ context.Context, _ string, show func(Event)) error {
	show(Quit{})
	return nil
}

// turn is a turn of the selected path.
type turn struct {
	id, role, span string
	stale          bool
}

func turnIn(v edn.Value) turn {
	return turn{text(v, "turn/id"), word(v, "role"), text(v, "span/id"), v.Key("stale?").Truthy()}
}

// path returns the turns of the conversation without messages, which may be too large for one
// response, and its version. The version can be later than that of the turns that the user has seen.
func (t *Talk) path(ctx context.Context) (path []turn, version int64, err error) {
	var in edn.MapBuilder
	in.Key("messages?", edn.Bool(false))
	of, err := t.ask(ctx, "get", in, nil)
	if err != nil {
		return nil, 0, err
	}
	for s := range of.Key("turns").Elems() {
		path = append(path, turnIn(s))
	}
	version, _ = of.Key("version").AsInt()
	return path, version, nil
}

// turnOf returns the index of the turn that an argument names with #N, otherwise of the last turn
// of a role, and the rest of the argument.
func turnOf(path []turn, arg, role string) (at int, rest string, err error) {
	const empty = "send a message first"
	if number, rest, found := numbered(arg); found {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(path) {
			hint := "/branch lists the last turns"
			if len(path) == 0 {
				hint = empty
			}
			return 0, "", contract.Errorf("conversation/turn-not-in-path", "there is no turn #%s, the conversation has %s",
				number, counted(len(path), "turn")).WithHint(hint)
		}
		return n - 1, rest, nil
	}
	for i, s := range slices.Backward(path) {
		if s.role == role {
			return i, arg, nil
		}
	}
	return 0, "", contract.Errorf("conversation/turn-not-in-path", "the conversation has no turn of the %s yet", role).
		WithHint(empty)
}

// named reads the path and returns it with the turn that an argument names.
func (t *Talk) named(ctx context.Context, arg, role string) (path []turn, at int, rest string, err error) {
	if path, _, err = t.path(ctx); err == nil {
		at, rest, err = turnOf(path, arg, role)
	}
	return path, at, rest, err
}

// input returns the input of an intent for the turn.
func (s turn) input() (in edn.MapBuilder) {
	in.Key("turn/id", edn.Text(s.id))
	return in
}

func (t *Talk) regenerate(ctx context.Context, arg string, show func(Event)) error {
	path, i, rest, err := t.named(ctx, arg, "assistant")
	if err == nil {
		err = unwanted("regenerate", strings.TrimSpace(rest))
	}
	if err != nil {
		return err
	}
	in := path[i].input()
	if arg == "" { // the whole last answer, which may have several turns
		in = edn.MapBuilder{}
	}
	return t.answered(ctx, "regenerate", in, show)
}

// unwanted returns an error if an argument has a rest.
func unwanted(name, rest string) error {
	if rest == "" {
		return nil
	}
	return contract.Errorf("invalid-request", "/%s takes no %q: expected %s", name, rest,
		strings.TrimSpace("/"+name+" "+find(name).args)).WithHint("leave the rest out; /help lists the commands")
}

// edit replaces a message and has it answered, in one commit.
func (t *Talk) edit(ctx context.Context, arg string, show func(Event)) error {
	path, i, written, err := t.named(ctx, arg, "user")
	if err != nil {
		return err
	}
	if strings.TrimSpace(written) == "" {
		all, err := t.alternatives(ctx, path[i])
		if err == nil {
			show(Offer{Line: fmt.Sprintf("/edit #%d %s", i+1, all.current().text)})
		}
		return err
	}
	if path[i].role == "user" {
		var in edn.MapBuilder
		in.Key("at-turn", edn.Text(path[i].id))
		return t.send(ctx, written, in, show)
	}
	in := path[i].input()
	in.Key("text", edn.Text(written))
	_, err = t.change(ctx, "edit", in, nil)
	if err == nil && t.draft != "" {
		show(Unsent{})
	}
	return err
}

// restore restores an earlier version of the conversation.
func (t *Talk) restore(ctx context.Context, to int64) error {
	var in edn.MapBuilder
	in.Key("version", edn.Int(to))
	if _, err := t.change(ctx, "restore", in, nil); err != nil {
		return err
	}
	if t.version != to {
		t.before[t.version] = t.previous(to)
	}
	return nil
}

// previous returns the version before a version, as the user sees it.
func (t *Talk) previous(version int64) int64 {
	if v, ok := t.before[version]; ok {
		return v
	}
	return version - 1
}

func (t *Talk) undo(ctx context.Context, _ string, show func(Event)) error {
	to := t.previous(t.version)
	if to < 0 {
		return contract.Errorf("invalid-request", "the conversation has no change to undo").WithHint("/branch lists its turns")
	}
	if err := t.restore(ctx, to); err != nil {
		return err
	}
	of, err := t.get(ctx, 2)
	if err != nil {
		return err
	}
	n, _ := of.Key("turn-count").AsInt()
	if n == 0 {
		show(Note{"undone: the conversation is empty"})
		return nil
	}
	show(Note{fmt.Sprintf("undone: the conversation has %s and ends with", counted(int(n), "turn"))})
	for m := range of.Key("messages").Elems() {
		show(said(m))
	}
	return nil
}

func (t *Talk) discard(ctx context.Context, _ string, show func(Event)) error {
	of, err := t.get(ctx, 1)
	if err != nil {
		return err
	}
	drafts := of.Key("drafts")
	if drafts.Len() == 0 {
		show(Note{"there are no messages without an answer"})
		return nil
	}
	for d := range drafts.Elems() {
		var in edn.MapBuilder
		in.Key("draft/id", d.Key("draft/id"))
		if _, err := t.ask(ctx, "delete", in, nil); err != nil {
			return err
		}
	}
	show(Discarded{})
	show(Note{"deleted: " + counted(drafts.Len(), "message") + " without an answer"})
	return nil
}

// alternative is one of the alternatives of a turn.
type alternative struct {
	id, by, text string
	selected     bool
}

type alternatives []alternative

// current returns the selected alternative.
func (a alternatives) current() alternative {
	return a[max(0, slices.IndexFunc(a, func(one alternative) bool { return one.selected }))]
}

func (t *Talk) alternatives(ctx context.Context, s turn) (out alternatives, err error) {
	of, err := t.ask(ctx, "get", s.input(), nil)
	if err != nil {
		return nil, err
	}
	for a := range of.Key("alternatives").Elems() {
		one := alternative{id: text(a, "span/id"), selected: a.Key("selected?").Truthy()}
		for m := range a.Key("messages").Elems() {
			one.by, one.text = author(m), strings.TrimPrefix(one.text+"\n"+content(m), "\n")
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, contract.Errorf("conversation/store-failed", "turn %s has no alternative", s.id)
	}
	return out, nil
}

// listedTurns is the number of turns that /branch lists.
const listedTurns = 10

func (t *Talk) branch(ctx context.Context, _ string, show func(Event)) error {
	path, version, err := t.path(ctx)
	if err != nil {
		return err
	}
	var rows [][2]string
	for i := max(0, len(path)-listedTurns); i < len(path); i++ {
		all, err := t.alternatives(ctx, path[i])
		if err != nil {
			return err
		}
		about := brief(all.current().text)
		if len(all) > 1 {
			about += fmt.Sprintf(" (%d alternatives)", len(all))
		}
		if path[i].stale {
			about += " (stale: a turn before it was changed)"
		}
		rows = append(rows, [2]string{fmt.Sprintf("#%d %s", i+1, path[i].role), about})
	}
	t.version = version
	show(Note{fmt.Sprintf("conversation %s, %s\n%s", t.id, counted(len(path), "turn"), aligned(rows))})
	return nil
}

// brief returns the beginning of the first line of a text.
func brief(s string) string {
	const most = 60
	line, more, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + "…"
	}
	if more != "" {
		line += " …"
	}
	return line
}

func (t *Talk) choose(ctx context.Context, arg string, show func(Event)) error {
	path, i, which, err := t.named(ctx, arg, "assistant")
	if err != nil {
		return err
	}
	all, err := t.alternatives(ctx, path[i])
	if err != nil {
		return err
	}
	which = strings.TrimSpace(which)
	if which == "" {
		var rows [][2]string
		for k, a := range all {
			mark := ""
			if a.selected {
				mark = " (selected)"
			}
			rows = append(rows, [2]string{fmt.Sprintf("%d%s", k+1, mark), strings.TrimPrefix(a.by+": ", ": ") + brief(a.text)})
		}
		show(Note{fmt.Sprintf("turn #%d has %s\n%s", i+1, counted(len(all), "alternative"), aligned(rows))})
		return nil
	}
	k, failure := strconv.Atoi(which)
	if failure != nil || k < 1 || k > len(all) {
		return contract.Errorf("conversation/span-not-in-turn", "turn #%d has no alternative %q: expected 1 to %d", i+1, which, len(all)).
			WithHint(fmt.Sprintf("/select #%d lists them", i+1))
	}
	in := path[i].input()
	in.Key("span/id", edn.Text(all[k-1].id))
	if _, err := t.change(ctx, "select", in, nil); err != nil {
		return err
	}
	show(Said{path[i].role, all[k-1].by, all[k-1].text})
	return nil
}

func (t *Talk) fork(ctx context.Context, arg string, show func(Event)) error {
	var in edn.MapBuilder
	if strings.HasPrefix(arg, "#") {
		path, i, rest, err := t.named(ctx, arg, "")
		if err != nil {
			return err
		}
		in, arg = path[i].input(), strings.TrimSpace(rest)
	}
	in.OptText("new/id", arg)
	in.Key("base-version", edn.Int(t.version))
	of, err := t.ask(ctx, "fork", in, nil)
	if err != nil {
		return err
	}
	show(Note{"a copy of conversation " + t.id})
	return t.enter(ctx, text(of, "conversation/id"), show)
}

func (t *Talk) choosing(_ context.Context, arg string, show func(Event)) error {
	arg = strings.TrimPrefix(arg, ":")
	switch {
	case arg == "":
		var rows [][2]string
		for _, m := range t.Models {
			mark := ""
			if m == t.Model {
				mark = "chosen"
			}
			rows = append(rows, [2]string{m, mark})
		}
		show(Note{"models, the first that works answers unless one is chosen:\n" + aligned(rows)})
		return nil
	case arg == "default":
		t.Model = ""
	case len(t.Models) > 0 && !slices.Contains(t.Models, arg):
		return contract.Errorf("cap/not-found", "%s is not a candidate of %s", arg, modelIntent).
			WithHint("/model lists the candidates; \"ferment chat --model NAME\" accepts any capability").
			DidYouMean(contract.Nearest(arg, t.Models))
	default:
		t.Model = arg
	}
	show(Moved{t.id, t.model()})
	show(Note{"the next answer is from " + t.model()})
	return nil
}
