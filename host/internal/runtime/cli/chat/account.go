package chat

import (
	"context"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// usage has the tokens and costs of an answer.
type usage struct {
	in, out int64   // tokens
	usd     big.Rat // zero value: nothing
	priced  bool
}

// spending has the tokens and costs of a message, with or without an accepted answer.
type spending struct {
	usage
	answered bool
}

func usageOf(v edn.Value) (u usage) {
	u.in, _ = v.Key("tokens-in").AsInt()
	u.out, _ = v.Key("tokens-out").AsInt()
	if usd, ok := v.Key("cost-usd").AsNumber(); ok {
		u.usd.Set(usd)
		u.priced = true
	}
	return u
}

func (u *usage) add(o *usage) {
	u.in, u.out, u.priced = u.in+o.in, u.out+o.out, u.priced || o.priced
	u.usd.Add(&u.usd, &o.usd)
}

func (u *usage) String() string {
	s := fmt.Sprintf("%d tokens in, %d out", u.in, u.out)
	if u.priced {
		s += ", " + strings.TrimRight(strings.TrimRight(u.usd.FloatString(6), "0"), ".") + " USD"
	}
	return s
}

func (t *Talk) cost(_ context.Context, _ string, show func(Event)) error {
	if len(t.spent) == 0 {
		show(Note{"no answer yet"})
		return nil
	}
	var all usage
	without := 0
	for i := range t.spent {
		all.add(&t.spent[i].usage)
		if !t.spent[i].answered {
			without++
		}
	}
	last, total := "last answer", counted(len(t.spent)-without, "answer")
	if !t.spent[len(t.spent)-1].answered {
		last = "last message, without an answer"
	}
	if without > 0 {
		total += fmt.Sprintf(", %d without one", without)
	}
	show(Note{aligned([][2]string{{last, t.spent[len(t.spent)-1].String()}, {total, all.String()}})})
	return nil
}

func (t *Talk) gates(_ context.Context, _ string, show func(Event)) error {
	if len(t.last.gates) == 0 {
		show(Note{"no verdict yet: gates judge the answers that this program waits for"})
		return nil
	}
	var rows [][2]string
	for _, g := range t.last.gates {
		verdict := "passed"
		switch {
		case !g.applicable:
			verdict = "not applicable"
		case !g.pass:
			verdict = "FAILED"
		}
		if n, ok := g.score.AsNumber(); ok {
			verdict += " with " + n.FloatString(2)
		}
		rows = append(rows, [2]string{g.capability + " " + g.name, verdict})
	}
	show(Note{aligned(rows)})
	return nil
}

// export writes the conversation to a file, which must not exist.
func (t *Talk) export(ctx context.Context, name string, show func(Event)) error {
	if name == "" {
		return contract.Errorf("invalid-request", "/export needs the name of a file").WithHint("such as /export " + t.id + ".md")
	}
	of, err := t.whole(ctx)
	if err != nil {
		return err
	}
	var content []byte
	switch ext := filepath.Ext(name); ext {
	case ".edn":
		content = append(edn.Write(of), '\n')
	case ".json":
		if content, err = edn.WriteJSON(of); err != nil {
			return err
		}
		content = append(content, '\n')
	case ".md":
		content = markdownOf(t.id, of)
	default:
		return contract.Errorf("invalid-request", "/export writes .md, .edn and .json, got %q", name).
			WithHint("such as /export " + strings.TrimSuffix(name, ext) + ".md")
	}
	if err := t.WriteFile(name, content); err != nil {
		return err
	}
	show(Note{"written to " + name})
	return nil
}

// readTurns is the maximum number of turns in one read. A message has at most 1 MiB of text.
const readTurns = 16

// whole returns the conversation with all messages of one version. It reads them in parts.
func (t *Talk) whole(ctx context.Context) (edn.Value, error) {
	of, err := t.get(ctx, 0)
	if err != nil || of.Key("turns").IsNil() {
		return of, err
	}
	var turns, messages []edn.Value
	n, _ := of.Key("turn-count").AsInt()
	for int64(len(turns)) < n {
		var in edn.MapBuilder
		in.Key("version", of.Key("version"))
		in.Key("limit", edn.Int(readTurns))
		if len(turns) > 0 {
			in.Key("after", turns[len(turns)-1].Key("turn/id"))
		}
		part, err := t.ask(ctx, "get", in, nil)
		if err != nil {
			return edn.Nil(), err
		}
		if part.Key("turns").Len() == 0 {
			break
		}
		turns = slices.AppendSeq(turns, part.Key("turns").Elems())
		messages = slices.AppendSeq(messages, part.Key("messages").Elems())
	}
	return of.AssocKey("turns", edn.Vector(turns...)).AssocKey("messages", edn.Vector(messages...)), nil
}

// markdownOf returns a conversation as Markdown with a section for each message.
func markdownOf(id string, of edn.Value) []byte {
	var b strings.Builder
	title := text(of, "title")
	if title == "" {
		title = "Conversation " + id
	}
	b.WriteString("# " + title + "\n")
	for m := range of.Key("messages").Elems() {
		s := said(m)
		b.WriteString("\n## " + s.Role)
		if s.By != "" {
			b.WriteString(" (" + s.By + ")")
		}
		b.WriteString("\n\n" + strings.TrimRight(s.Text, "\n") + "\n")
	}
	return []byte(b.String())
}

// aligned returns a table of two columns.
func aligned(rows [][2]string) string {
	width := 0
	for _, r := range rows {
		width = max(width, len([]rune(r[0])))
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.TrimRight(r[0]+strings.Repeat(" ", width-len([]rune(r[0]))+2)+r[1], " ")
	}
	return strings.Join(lines, "\n")
}
