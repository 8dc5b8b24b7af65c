package packfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// MaxFile is the largest file, in bytes.
const MaxFile = 256 << 10

// limits are the limits of a file: a map of texts and vectors of texts.
var limits = edn.Limits{Bytes: MaxFile, Depth: 4, Nodes: 4000, String: 128 << 10}

// Problem is one problem of a file.
type Problem struct {
	Message  string   // one sentence without position
	Start    int      // first byte
	End      int      // byte after the last
	Expected string   // empty if not applicable
	Found    string   // as written; or empty
	Among    []string // the valid names if Found is an unknown name, else nil
	Hint     string   // the next step, or empty
}

// Parsed is the pack of a file.
type Parsed struct {
	text.Pack
	// Start and End are the position of the language in the file, in bytes.
	Start, End int
}

// fields returns the keys of a file with the destinations of their values.
func fields(p *text.Pack) map[string]any {
	return map[string]any{
		"language": &p.Language, "name": &p.Name, "terminators": &p.Terminators, "closers": &p.Closers,
		"letters": &p.Letters, "ordinal-point": &p.OrdinalPoint,
		"abbreviations": words{&p.Abbreviations}, "common": words{&p.Common}, "stop": words{&p.Stop},
		"dangling": words{&p.Dangling}, "numbers": words{&p.Numbers},
		"list": &p.List, "example": &p.Example, "detail": &p.Detail, "brevity": &p.Brevity, "shows": &p.Shows,
		"uncertainty": &p.Uncertainty,
	}
}

// words is a list that is written as one text.
type words struct{ list *[]string }

// keys returns the keys of a file, sorted.
func keys() []string {
	var out []string
	for key := range fields(&text.Pack{}) {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// required are the required keys.
var required = []string{"language", "common"}

// Parse parses the text of a file. A pack with problems must not be used.
func Parse(raw []byte) (Parsed, []Problem) {
	v, positions, err := edn.ReadWithPositions(raw, edn.WithLimits(limits))
	if err != nil {
		return Parsed{}, []Problem{unreadable(raw, err)}
	}
	r := reader{raw: string(raw), positions: positions}
	if !v.IsMap() {
		r.add("a language pack is not a map", nil, "a map, such as {:language \"it\" ...}", v.Kind().String(),
			"put the entries between { and }")
		return Parsed{}, r.problems
	}
	r.into(v)
	if len(r.problems) == 0 {
		r.check()
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Start - b.Start })
	span, _ := r.positions.At(edn.K("language"))
	return Parsed{r.pack, span.Start.Offset, span.End.Offset}, r.problems
}

// read reads a file. The error lists every problem with its line.
func read(name string) (text.Pack, error) {
	raw, err := readFile(name)
	if err != nil {
		return text.Pack{}, fmt.Errorf("read language pack: %w", err)
	}
	p, problems := Parse(raw)
	if len(problems) == 0 {
		return p.Pack, nil
	}
	errs := make([]error, len(problems))
	for i, x := range problems {
		line, column := place(raw, x.Start)
		says := fmt.Sprintf("%s:%d:%d: %s", name, line, column, x.Message)
		if x.Expected != "" {
			says += ", expected " + x.Expected
		}
		if x.Hint != "" {
			says += " (" + x.Hint + ")"
		}
		errs[i] = errors.New(says)
	}
	return text.Pack{}, fmt.Errorf("read language pack: %w", errors.Join(errs...))
}

func readFile(name string) ([]byte, error) {
	// Opening a pipe or a device could block, so check the type first.
	info, err := os.Stat(name)
	var failed *fs.PathError
	if errors.As(err, &failed) { // the name of the system call does not help the reader of the message
		return nil, fmt.Errorf("%s: %w", name, failed.Err)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, MaxFile)
	}
	return raw, nil
}

func place(raw []byte, at int) (line, column int) {
	before := string(raw[:at])
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

func unreadable(raw []byte, err error) Problem {
	p := Problem{Message: "a language pack cannot be read: " + err.Error()}
	var bad *edn.SyntaxError
	if errors.As(err, &bad) {
		p.Message = "a language pack is not EDN: " + bad.Message
		p.Hint = bad.Hint
		p.Start = min(max(bad.Pos.Offset, 0), len(raw))
		p.End = p.Start
	}
	return p
}

// reader converts a map to a pack.
type reader struct {
	raw       string
	positions *edn.Positions
	pack      text.Pack
	problems  []Problem
}

// add reports a problem with the value at a path.
func (r *reader) add(message string, path []edn.Value, expected, found, hint string) *Problem {
	span, _ := r.positions.At(path...)
	r.problems = append(r.problems,
		Problem{Message: message, Start: span.Start.Offset, End: span.End.Offset, Expected: expected, Found: found,
			Hint: hint})
	return &r.problems[len(r.problems)-1]
}

func (r *reader) into(v edn.Value) {
	takers := fields(&r.pack)
	for key, value := range v.Entries() {
		name, _ := key.AsKeyword()
		taker, known := takers[name]
		if !known {
			p := r.add("a language pack has no key "+shortened(key.String()), []edn.Value{key},
				"one of the keys of a language pack", name, "")
			if span, ok := r.positions.KeyAt(key); ok {
				p.Start, p.End = span.Start.Offset, span.End.Offset
			}
			p.Among = keys()
			continue
		}
		r.take(taker, key, value)
	}
	for _, name := range required {
		if !v.HasKey(name) {
			p := r.add("a language pack lacks :"+name, nil, "", "", "add :"+name+" \"...\"")
			p.End = min(p.Start+1, len(r.raw))
		}
	}
}

func (r *reader) take(taker any, key, v edn.Value) {
	at := []edn.Value{key}
	switch taker := taker.(type) {
	case *bool:
		b, ok := v.AsBool()
		if !ok {
			r.add(key.String()+" is "+kindOf(v), at, "true or false", shortened(v.String()), "write true, or leave the key out")
		}
		*taker = b
	case *string:
		*taker, _ = r.text(key, at, v, "a text", "write it in quotes")
	case words:
		s, _ := r.text(key, at, v, "one text, of words with blanks between them", "write all words within one pair of quotes")
		*taker.list = strings.Fields(s)
	case *[]string:
		if !v.IsVector() && !v.IsList() {
			r.add(key.String()+" is "+kindOf(v), at, "a vector of texts, each a pattern", shortened(v.String()),
				"put it in brackets: [...]")
			return
		}
		i := 0
		for item := range v.Elems() {
			place := append(at[:1:1], edn.Int(int64(i)))
			if s, ok := r.text(key, place, item, "a text with a pattern", "write the pattern in quotes"); ok {
				*taker = append(*taker, s)
			}
			i++
		}
	}
}

func (r *reader) text(key edn.Value, at []edn.Value, v edn.Value, expected, hint string) (string, bool) {
	s, ok := v.AsString()
	if !ok {
		what := key.String() + " is " + kindOf(v)
		if len(at) > 1 {
			what = key.String() + " holds " + kindOf(v)
		}
		r.add(what, at, expected, shortened(v.String()), hint)
	}
	return s, ok
}

// check calls Pack.Check and adds positions to its problems.
func (r *reader) check() {
	for _, x := range r.pack.Check() {
		at := []edn.Value{edn.K(x.Key)}
		if x.Index >= 0 {
			at = append(at, edn.Int(int64(x.Index)))
		}
		p := r.add(x.Error(), at, x.Expected, shortened(x.Found), x.Hint)
		if x.Found == "" {
			continue
		}
		if i := strings.Index(r.raw[p.Start:p.End], x.Found); i >= 0 {
			p.Start += i
			p.End = p.Start + len(x.Found)
		}
	}
}

func kindOf(v edn.Value) string {
	switch v.Kind() {
	case edn.KindNil:
		return "nil"
	case edn.KindString:
		return "a text"
	case edn.KindInt, edn.KindFloat, edn.KindDecimal:
		return "a number"
	case edn.KindBool:
		return "a boolean"
	}
	return "a " + v.Kind().String()
}

// shortened cuts a quoted text.
func shortened(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// FileError is the error of [Load]. Index is the index of the file that cannot be
// used.
type FileError struct {
	Index int
	Err   error
}

// Error is the message of the cause, which names the file.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Load reads files and returns the shipped languages with theirs; a pack of a
// shipped language replaces it completely. The error is a FileError.
func Load(files []string) (*text.Packs, error) {
	var packs []text.Pack
	seen := map[string]string{}
	for i, name := range files {
		p, err := read(name)
		if err != nil {
			return nil, &FileError{i, err}
		}
		if other, twice := seen[p.Language]; twice {
			return nil, &FileError{i,
				fmt.Errorf("read language pack: %s and %s are both of the language %q: keep one of the two", other, name,
					p.Language)}
		}
		seen[p.Language] = name
		packs = append(packs, p)
	}
	out, err := text.ShippedPacks().With(packs...)
	if err != nil {
		return nil, &FileError{len(files) - 1, fmt.Errorf("read language packs: %w", err)}
	}
	return out, nil
}
