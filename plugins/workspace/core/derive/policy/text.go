package policy

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Frame is a child frame with its text.
type Frame struct {
	store.Child
	Text string
}

// Result is a combined text.
type Result struct {
	Text    string
	Omitted int // frames that were cut off because the text would be too large
}

// Call invokes the intent of a custom policy with its input and returns its
// text.
type Call func(ctx context.Context, intent string, input edn.Value) (string, error)

// Text combines frames, which must be in the order of the basis, into the text
// for dir, which is empty without any frame. limit is the maximum length of the text in bytes; a longer one is
// synthesis/too-large unless the policy truncates. call invokes the intent of a
// custom policy.
func (p *Policy) Text(ctx context.Context, dir string, frames []Frame, limit int, known Registry, call Call) (*Result, error) {
	if len(frames) == 0 { // WS-098
		return &Result{}, nil
	}
	frames = slices.Clone(frames)
	if p.Order == OrderName {
		slices.SortStableFunc(frames, func(a, b Frame) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type)) })
	}
	var r *Result
	var err error
	switch p.Kind {
	case Concatenate:
		r, err = p.join(dir, frames, limit)
	case Filter:
		r, err = p.join(dir, p.filtered(frames), limit)
	case Summarize:
		r, err = p.bounded(dir, summary(frames), "", limit)
	default:
		r, err = p.custom(ctx, dir, frames, limit, known, call)
	}
	return r, err
}

func tooLarge(dir string, limit int) error {
	return contract.Errorf("synthesis/too-large", "the text is larger than %d bytes", limit).
		WithOp("synthesize", store.Shown(dir)).WithDetail("limit", edn.Int(int64(limit))).
		WithHint("use :truncate? true, or a policy that makes less text")
}

// bounded joins parts as long as they fit.
func (p *Policy) bounded(dir string, parts []string, end string, limit int) (*Result, error) {
	var b strings.Builder
	for i, part := range parts {
		if b.Len()+len(part)+len(end) > limit {
			if !p.Truncate {
				return nil, tooLarge(dir, limit)
			}
			return &Result{Text: b.String(), Omitted: len(parts) - i}, nil
		}
		b.WriteString(part)
		b.WriteString(end)
	}
	return &Result{Text: b.String()}, nil
}

func (p *Policy) join(dir string, frames []Frame, limit int) (*Result, error) {
	parts := make([]string, len(frames))
	for i, f := range frames {
		if p.Heading == HeadingPath {
			parts[i] = "# " + store.Shown(f.Path) + "\n"
		}
		parts[i] += f.Text
	}
	return p.bounded(dir, parts, p.Separator, limit)
}

func (p *Policy) filtered(frames []Frame) (list []Frame) {
	has := func(set []string, x string) bool { return set == nil || slices.Contains(set, x) }
	for _, f := range frames {
		matches, _ := path.Match(p.Name, f.Name)
		if has(p.Types, f.Type) && has(p.Agents, f.Agent) && has(p.Origins, string(f.Origin)) && (p.Name == "" || matches) &&
			f.Bytes >= p.MinBytes && (p.MaxBytes == 0 || f.Bytes <= p.MaxBytes) {
			list = append(list, f)
		}
	}
	if p.MaxFrames > 0 && len(list) > p.MaxFrames {
		list = list[:p.MaxFrames]
	}
	return list
}

// maxLine is the number of characters of a line in a summary.
const maxLine = 120

// summary returns the lines of a listing: the totals, then one for each frame.
func summary(frames []Frame) []string {
	if len(frames) == 0 {
		return nil
	}
	entries := map[string]bool{}
	dirs, bytes := 0, 0
	for _, f := range frames {
		if !entries[f.Path] && f.Mode == id.Dir {
			dirs++
		}
		entries[f.Path] = true
		bytes += f.Bytes
	}
	lines := []string{fmt.Sprintf("%s described: %s, %s; %s in %s.\n", count(len(entries), "entry", "entries"),
		count(dirs, "directory", "directories"), count(len(entries)-dirs, "file", "files"), count(bytes, "byte", "bytes"), count(len(frames), "frame", "frames"))}
	for _, f := range frames {
		kind, name := "file", store.Shown(f.Name)
		if f.Mode == id.Dir {
			kind, name = "dir", name+"/"
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s (%s, %s): %s", kind, name, f.Type, count(f.Bytes, "byte", "bytes"), FirstLine(f.Text)), ": ")+"\n")
	}
	return lines
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// FirstLine returns the first line of a text that is not blank, cut to 120
// characters.
func FirstLine(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line = strings.ToValidUTF8(line, string(utf8.RuneError))
		if runes := []rune(line); len(runes) > maxLine {
			return string(runes[:maxLine-1]) + "…"
		}
		return line
	}
	return ""
}

func (p *Policy) custom(ctx context.Context, dir string, frames []Frame, limit int, known Registry, call Call) (*Result, error) {
	var text string
	var err error
	if p.Synthesizer != "" {
		text, err = known[p.Synthesizer].Run(frames, p.Params)
	} else {
		text, err = call(ctx, p.Intent, p.input(dir, frames))
	}
	switch {
	case ctx.Err() != nil:
		return nil, contract.AsError(context.Cause(ctx))
	case err != nil:
		return nil, customFailed(dir, err)
	case !utf8.ValidString(text):
		return nil, customFailed(dir, contract.Errorf("input/invalid", "the answer is not UTF-8 text"))
	case len(text) > limit:
		return nil, tooLarge(dir, limit)
	}
	return &Result{Text: text}, nil
}

// customFailed returns synthesis/custom-failed, which can be retried if its
// cause can; or timeout/hard for a policy that did not answer in time.
func customFailed(dir string, err error) error {
	cause := contract.AsError(err)
	if strings.HasPrefix(cause.Type, "timeout/") || cause.Type == "queue/deadline-exceeded" {
		return contract.Errorf("timeout/hard", "the custom policy did not answer in time: %w", err).
			WithOp("synthesize", store.Shown(dir)).WithCause(cause).WithSource(cause.Source)
	}
	return contract.Errorf("synthesis/custom-failed", "the custom policy failed: %w", err).
		WithOp("synthesize", store.Shown(dir)).WithCause(cause).WithRetryable(cause.Retryable).WithClass(cause.Class).WithSource(cause.Source)
}

// input returns the input for the intent of a custom policy.
func (p *Policy) input(dir string, frames []Frame) edn.Value {
	list := make([]edn.Value, len(frames))
	for i, f := range frames {
		list[i] = f.Value()
	}
	var b edn.MapBuilder
	b.Key("path", edn.Text(store.Shown(dir)))
	b.Key("frames", edn.Vector(list...))
	b.Opt("params", p.Params)
	return b.Map()
}

// Value returns the frame as data, for the input of an intent. A frame that was selected
// with store.BindsInputs has no frame id.
func (f *Frame) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("path", edn.Text(store.Shown(f.Path)))
	if !f.Frame.IsZero() {
		b.Key("frame/id", edn.Text(f.Frame.String()))
	}
	b.Key("frame/type", edn.Text(f.Type))
	b.Key("agent/id", edn.Text(f.Agent))
	b.Key("content", edn.Text(strings.ToValidUTF8(f.Text, string(utf8.RuneError))))
	return b.Map()
}
