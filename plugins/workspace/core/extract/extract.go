package extract

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
)

// File is the input of an extractor.
type File struct {
	Path string // in the workspace
	Exec bool
	Data []byte
	// Size is the number of bytes of the file if Data has only the first ones of a large file.
	Size int64
}

// size returns the number of bytes of the file.
func (f File) size() int { return max(int(f.Size), len(f.Data)) }

// partial reports whether the file has more bytes than Data.
func (f File) partial() bool { return f.size() > len(f.Data) }

// Extractor describes one kind of files.
type Extractor struct {
	Name    string // such as extract/text
	Version int
	Whole   bool // Run requires all bytes of the file
	Run     func(f File) (string, error)
}

// The names of the extractors. Auto is the one that Choose returns.
const (
	Auto      = "extract/auto"
	Facts     = "extract/facts"
	Text      = "extract/text"
	GoOutline = "extract/go-outline"
)

// All returns the extractors.
func All() []Extractor {
	return []Extractor{
		{Name: Auto, Version: 2, Run: auto},
		{Name: Facts, Version: 1, Run: facts},
		{Name: GoOutline, Version: 1, Whole: true, Run: goOutline},
		{Name: Text, Version: 2, Whole: true, Run: text},
	}
}

// Get returns the extractor with a name.
func Get(name string) (Extractor, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return Extractor{}, false
}

// Choose returns the name of the most specific extractor for a file: go-outline
// for Go source that parses, facts for an empty, binary or partial file, else text.
func Choose(f File) string {
	switch {
	case len(f.Data) == 0 || f.partial() || Binary(f.Data):
		return Facts
	case path.Ext(f.Path) == ".go" && parses(f):
		return GoOutline
	}
	return Text
}

func auto(f File) (string, error) {
	x, _ := Get(Choose(f))
	return x.Run(f)
}

// sniffed is the number of bytes that decide whether a file is text.
const sniffed = 8000

// Binary reports whether data is not text: it has a NUL in its first bytes.
func Binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), sniffed)], 0) >= 0
}

// valid returns data as text; what is not UTF-8 is replaced.
func valid(data []byte) string {
	return strings.ToValidUTF8(strings.TrimPrefix(string(data), "\ufeff"), string(utf8.RuneError))
}

func notText(f File, extractor string) error {
	return contract.Errorf("generate/binary", "the file is not text").WithOp(extractor, f.Path).
		WithHint("use extract/facts, which describes any file")
}

// lines returns the number of lines; the last one may lack its end.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// cut returns text in one line of at most n characters.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}
