package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// Formatted is the result of formatting one file.
type Formatted struct {
	Name   string // name in messages
	Path   string // path of the file; empty: Name
	Before []byte
	After  []byte // equal to Before if there are errors
	// Diagnostics are the syntax errors that prevent formatting.
	Diagnostics diag.Diagnostics
}

// Changed reports whether the file is not in canonical layout.
func (f Formatted) Changed() bool { return !bytes.Equal(f.Before, f.After) }

// Format converts a text to the canonical layout (HCL-038). It changes only
// spacing, line ends and blank lines. JSON, recognized by its name or first
// character, is indented by two spaces per level and keeps the order of keys. A
// text with syntax errors is not changed.
func Format(name string, src []byte) Formatted {
	out := Formatted{Name: name, Before: src, After: src}
	s := diag.NewSource(name, name, 0, src)
	if strings.HasSuffix(name, ".json") || looksLikeJSON(s.Text) {
		return formatJSON(s, out)
	}
	report := diag.NewCollector(diag.Sources{name: s})
	body, tokens := syntax.ParseTokens(s, report)
	if ds := report.Result(); ds.HasErrors() {
		out.Diagnostics = ds
		return out
	}
	// The library changes only spaces inside lines, so line numbers remain valid.
	after := layout(hclwrite.Format(s.Text), protected(tokens, len(s.Lines)), blockEnds(s, body))
	if !bytes.Equal(after, s.Text) && !sameTokens(tokens, after) {
		// The library changed tokens; keep the file as it is.
		return out
	}
	out.After = after
	return out
}

// looksLikeJSON reports whether the first character cannot begin native syntax.
func looksLikeJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

func formatJSON(s *diag.Source, out Formatted) Formatted {
	report := diag.NewCollector(diag.Sources{s.Name: s})
	syntax.ParseJSON(s, report)
	if ds := report.Result(); ds.HasErrors() {
		out.Diagnostics = ds
		return out
	}
	var after bytes.Buffer
	after.Grow(len(s.Text) + len(s.Text)/4)
	if err := json.Indent(&after, bytes.Trim(s.Text, " \t\r\n"), "", "  "); err != nil {
		report.Add(diag.Diagnostic{
			Type:    "config/syntax",
			Message: "the text is not JSON: " + err.Error(),
			Range:   &diag.Range{File: s.Name},
		})
		out.Diagnostics = report.Result()
		return out
	}
	after.WriteByte('\n')
	out.After = after.Bytes()
	return out
}

// FormatFileAs formats the file at path; name is its name in messages. The error means that the
// file cannot be read or is larger than syntax.MaxFileBytes.
func FormatFileAs(name, path string) (Formatted, error) {
	raw, rerr := disk.ReadConfig(name, path, syntax.MaxFileBytes)
	if rerr != nil {
		return Formatted{}, rerr
	}
	f := Format(name, raw)
	f.Path = path
	return f, nil
}

// Report returns the errors that prevent formatting.
func (f Formatted) Report() diag.Report { return diag.NewReport(f.Diagnostics, 0, 1, 0) }

// Write atomically replaces the file by its canonical form, with the same mode and owner. After an
// error the old file is unchanged.
func (f Formatted) Write() error {
	path, err := filepath.EvalSymlinks(cmp.Or(f.Path, f.Name))
	if err != nil {
		return fmt.Errorf("format %s: %w", f.Name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("format %s: %w", f.Name, err)
	}
	t, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(info.Mode().Perm()))
	if err != nil {
		return fmt.Errorf("format %s: %w", f.Name, err)
	}
	defer func() { _ = t.Cleanup() }()
	if _, err := t.Write(f.After); err != nil {
		return fmt.Errorf("format %s: %w", f.Name, err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		if err := t.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return fmt.Errorf("format %s: keep the owner: %w", f.Name, err)
		}
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("format %s: %w", f.Name, err)
	}
	return nil
}

// layout normalizes blank lines: one between blocks, at most one in a row, none at the start and
// end of the text.
func layout(text []byte, keep []bool, apart map[int]bool) []byte {
	lines := bytes.Split(text, []byte("\n"))
	var out bytes.Buffer
	out.Grow(len(text) + 64)
	blank := false // insert one before the next line with text
	for i, line := range lines {
		if i >= len(keep) || !keep[i] {
			line = bytes.TrimRight(line, " \t")
			if len(line) == 0 {
				blank = true
				continue
			}
		}
		if blank && out.Len() > 0 {
			out.WriteByte('\n')
		}
		out.Write(line)
		out.WriteByte('\n')
		blank = apart[i+1]
	}
	return out.Bytes()
}

// protected marks the lines (from 0) that begin inside a heredoc or a comment,
// where white space is significant.
func protected(tokens hclsyntax.Tokens, n int) []bool {
	keep := make([]bool, n+1)
	mark := func(from, to int) { // lines from 1, excluding from
		for i := from + 1; i <= to && i <= n; i++ {
			keep[i-1] = true
		}
	}
	var open []int
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOHeredoc:
			open = append(open, t.Range.Start.Line)
		case hclsyntax.TokenCHeredoc:
			if len(open) > 0 {
				mark(open[len(open)-1], t.Range.Start.Line)
				open = open[:len(open)-1]
			}
		case hclsyntax.TokenComment:
			if bytes.HasPrefix(t.Bytes, []byte("/*")) {
				mark(t.Range.Start.Line, t.Range.End.Line)
			}
		}
	}
	return keep
}

// blockEnds returns the lines (from 1) on which a block ends and another block
// follows without a blank line.
func blockEnds(s *diag.Source, body *hclsyntax.Body) map[int]bool {
	out := map[int]bool{}
	var visit func(b *hclsyntax.Body)
	visit = func(b *hclsyntax.Body) {
		type item struct {
			block    bool
			from, to int
		}
		var items []item
		for _, a := range b.Attributes {
			items = append(items, item{from: a.SrcRange.Start.Line, to: a.SrcRange.End.Line})
		}
		for _, inner := range b.Blocks {
			items = append(items,
				item{block: true, from: inner.TypeRange.Start.Line, to: inner.CloseBraceRange.End.Line})
			visit(inner.Body)
		}
		slices.SortFunc(items, func(x, y item) int { return x.from - y.from })
		for i := 1; i < len(items); i++ {
			x, y := items[i-1], items[i]
			if !x.block || !y.block {
				continue
			}
			empty := false
			for n := x.to + 1; n < y.from; n++ {
				line, _ := s.Line(n)
				empty = empty || strings.TrimSpace(line) == ""
			}
			if !empty {
				out[x.to] = true
			}
		}
	}
	visit(body)
	return out
}

// sameTokens reports whether two texts differ only in white space.
func sameTokens(before hclsyntax.Tokens, text []byte) bool {
	after, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos)
	x, y := significant(before), significant(after)
	return slices.EqualFunc(x, y, func(s, t hclsyntax.Token) bool {
		return s.Type == t.Type && bytes.Equal(bytes.TrimRight(s.Bytes, " \t\n"), bytes.TrimRight(t.Bytes, " \t\n"))
	})
}

// significant returns the tokens without redundant line ends: after a line end, at
// the start and at the end of the text.
func significant(tokens hclsyntax.Tokens) hclsyntax.Tokens {
	out := make(hclsyntax.Tokens, 0, len(tokens))
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenEOF:
			continue
		case hclsyntax.TokenNewline:
			if len(out) == 0 || endsLine(out[len(out)-1]) {
				continue
			}
		}
		out = append(out, t)
	}
	if n := len(out); n > 0 && out[n-1].Type == hclsyntax.TokenNewline {
		out = out[:n-1]
	}
	return out
}

func endsLine(t hclsyntax.Token) bool {
	return t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment &&
		bytes.HasSuffix(t.Bytes, []byte("\n"))
}
