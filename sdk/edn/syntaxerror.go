package edn

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// SyntaxError is the reason why a text was rejected, with its position. The
// reader stops at the first error.
type SyntaxError struct {
	Code    string    // such as "duplicate-key"; the list is closed
	Pos     Position  // of the error
	Path    []Value   // keys and indices of the open collections; [:key n] for a form in key position
	Message string    // for people, without position
	Hint    string    // the next step, or empty
	First   *Position // the earlier of two equal keys or members, or nil
	Source  string    // name of the text, or empty

	excerpt string
}

// Error returns one line: source, position, message and path.
func (e *SyntaxError) Error() string {
	var b strings.Builder
	if e.Source != "" {
		b.WriteString(e.Source)
		b.WriteByte(':')
	}
	fmt.Fprintf(&b, "%d:%d: %s", e.Pos.Line, e.Pos.Column, e.Message)
	if len(e.Path) > 0 {
		b.WriteString(" in ")
		b.WriteString(e.pathText())
	}
	return b.String()
}

func (e *SyntaxError) pathText() string {
	steps := make([]string, len(e.Path))
	for i := range e.Path {
		steps[i] = e.Path[i].brief()
	}
	return "[" + strings.Join(steps, " ") + "]"
}

// Excerpt returns the line of the error with a mark below, two lines without a
// final line break. Control characters are escaped and secrets masked.
func (e *SyntaxError) Excerpt() string { return e.excerpt }

// Value returns the error as data: a map with :code :line :column :offset :path
// :message and, where known, :first and :hint.
func (e *SyntaxError) Value() Value {
	var b MapBuilder
	b.Key("code", K(e.Code))
	b.Key("line", Int(int64(e.Pos.Line)))
	b.Key("column", Int(int64(e.Pos.Column)))
	b.Key("offset", Int(int64(e.Pos.Offset)))
	path := make([]Value, len(e.Path))
	for i, step := range e.Path {
		if path[i] = step; step.Depth() > 8 || step.holdsSecret() {
			path[i] = Text(step.brief())
		}
	}
	b.Key("path", Vector(path...))
	b.Key("message", Text(e.Message))
	if e.First != nil {
		b.Key("first", MustMap(K("line"), Int(int64(e.First.Line)), K("column"), Int(int64(e.First.Column))))
	}
	if e.Hint != "" {
		b.Key("hint", Text(e.Hint))
	}
	return b.Map()
}

// fault is an error of a reader before it is converted to a SyntaxError.
type fault struct {
	code    string
	at      int // byte offset
	first   int // offset of the earlier form, or -1
	message string
	hint    string
	path    []Value
	secrets []span // text near the error that must not be quoted
}

type span struct{ start, end int }

// jsonObject matches the start of a JSON object, alone or in an array. A text
// that matches and is invalid as EDN was not meant as EDN.
var jsonObject = regexp.MustCompile(`^\s*(\[\s*)*\{\s*"[^"\\]*":`)

const jsonReach = 256 // the number of bytes that jsonObject is matched against

// report converts a fault in text to a SyntaxError. The error does not share
// memory with text, which may be large and contain secrets.
func (f *fault) report(text, source string) *SyntaxError {
	e := &SyntaxError{
		Code:    f.code,
		Pos:     positionAt(text, f.at),
		Message: f.message,
		Hint:    f.hint,
		Source:  source,
	}
	if f.first >= 0 {
		first := positionAt(text, f.first)
		e.First = &first
		e.Message += " (first at " + strconv.Itoa(first.Line) + ":" + strconv.Itoa(first.Column) + ")"
	}
	e.Path = make([]Value, len(f.path))
	for i := range f.path {
		e.Path[i] = f.path[i].Detach()
	}
	e.excerpt = excerpt(text, f.at, e.Pos.Line, f.secrets)
	return e
}
