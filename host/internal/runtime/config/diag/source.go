package diag

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Position is a position in a file: Line and Column start at 1, columns are code points, and Byte
// is an offset from 0.
type Position struct {
	Line, Column, Byte int
}

// Range is a half-open range of a file. A Range without a line means the whole
// file.
type Range struct {
	File       string
	Start, End Position
}

// String returns file:line:column, or only the file.
func (r Range) String() string {
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d:%d", r.File, r.Start.Line, r.Start.Column)
}

// Source is one file of the configuration. Text is the input of the parser, without a byte order
// mark and with LF line ends; reported positions are those of the file on disk. After parsing, only
// Hide modifies a Source, and only during the load that read it.
type Source struct {
	Name string // name for display: relative to the root, with slashes
	Path string // absolute path

	Text    []byte
	Order   int   // index in the load order
	Lines   []int // offset in Text of the first byte of each line
	dropped []int // offsets in Text before which a CR was removed
	shift   int   // size of the byte order mark in bytes
	// Private marks a file with secrets, whose lines are never quoted.
	Private bool
	// hidden holds the ranges of literals in the position of a secret, which are never quoted.
	hidden [][2]int
	// pieces holds the native syntax of the expressions in a JSON file, by start offset.
	pieces map[int]string
}

var byteOrderMark = []byte{0xEF, 0xBB, 0xBF}

// NewSource returns the source of a file; order is its place in the load order.
func NewSource(name, path string, order int, raw []byte) *Source {
	s := &Source{Name: name, Path: path, Order: order}
	if bytes.HasPrefix(raw, byteOrderMark) {
		s.shift = len(byteOrderMark)
		raw = raw[s.shift:]
	}
	s.Text = raw
	if bytes.IndexByte(raw, '\r') >= 0 {
		s.Text = s.withoutCarriageReturns(raw)
	}
	s.Lines = append(s.Lines, 0)
	for i, c := range s.Text {
		if c == '\n' {
			s.Lines = append(s.Lines, i+1)
		}
	}
	return s
}

func (s *Source) withoutCarriageReturns(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i
		for end < len(raw) && raw[end] == '\r' {
			end++
		}
		if end > i && (end == len(raw) || raw[end] == '\n') {
			for range end - i {
				s.dropped = append(s.dropped, len(out))
			}
			i = end
		}
		if end == i && end < len(raw) {
			end++
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return out
}

// Position returns the position in the file of a byte offset in the parsed text. An offset outside
// the text is moved to its nearest end.
func (s *Source) Position(offset int) Position {
	offset = min(max(offset, 0), len(s.Text))
	line := sort.SearchInts(s.Lines, offset+1) // the first line that starts after offset
	start := s.Lines[line-1]
	return Position{
		Line:   line,
		Column: utf8.RuneCount(s.Text[start:offset]) + 1,
		Byte:   offset + s.shift + sort.SearchInts(s.dropped, offset+1),
	}
}

// Span returns the range between two offsets in the parsed text. If to is before from, the range is
// empty.
func (s *Source) Span(from, to int) *Range {
	return &Range{File: s.Name, Start: s.Position(from), End: s.Position(max(from, to))}
}

// Range converts a range of the HCL library, whose offsets refer to the parsed text.
func (s *Source) Range(r hcl.Range) *Range { return s.Span(r.Start.Byte, r.End.Byte) }

// Line returns line n, counted from 1, without its line end. Hidden ranges and passwords in URLs
// are replaced by asterisks. It returns false if the file is private or has no such line.
func (s *Source) Line(n int) (string, bool) {
	if s.Private || n < 1 || n > len(s.Lines) {
		return "", false
	}
	from, to := s.Lines[n-1], len(s.Text)
	if n < len(s.Lines) {
		to = s.Lines[n] - 1
	}
	var b strings.Builder
	for _, h := range s.hidden {
		if start, end := max(h[0], from), min(h[1], to); start < end {
			b.Write(s.Text[from:start])
			b.WriteString(strings.Repeat("*", utf8.RuneCount(s.Text[start:end])))
			from = end
		}
	}
	b.Write(s.Text[from:to])
	return withoutPasswords(b.String()), true
}

// Hide redacts the strings in a range of the parsed text from excerpts. Quotes remain visible.
func (s *Source) Hide(from, to int) {
	for i := from; i < to; {
		end := i
		for end < to && s.Text[end] != '"' {
			end++
		}
		if end > i {
			s.hidden = append(s.hidden, [2]int{i, end})
		}
		i = end + 1
	}
	slices.SortFunc(s.hidden, func(a, b [2]int) int { return a[0] - b[0] })
}

var urlPassword = regexp.MustCompile(`://[^\s/"@:]*:[^\s/"@]+@`)

// withoutPasswords replaces the password of each URL by asterisks.
func withoutPasswords(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urlPassword.ReplaceAllStringFunc(text, func(url string) string {
		user, password, _ := strings.Cut(strings.TrimPrefix(url, "://"), ":")
		return "://" + user + ":" + strings.Repeat("*", utf8.RuneCountInString(password)-1) + "@"
	})
}

// Sources are the files of one load, by display name.
type Sources map[string]*Source

// SetPiece records the native syntax of the expression at an offset of a JSON file.
func (s *Source) SetPiece(at int, text string) {
	if s.pieces == nil {
		s.pieces = map[int]string{}
	}
	s.pieces[at] = text
}

// Piece returns the native syntax of an expression in a JSON file; false if SetPiece was not called
// for it.
func (s *Source) Piece(r hcl.Range) (string, bool) {
	for _, base := range slices.Sorted(maps.Keys(s.pieces)) {
		text := s.pieces[base]
		from, to := r.Start.Byte-base, r.End.Byte-base
		if from >= 0 && to <= len(text) && from <= to {
			return text[from:to], true
		}
	}
	return "", false
}
