package goapi

import (
	"go/scanner"
	"go/token"
	"strconv"
	"strings"
)

// Unknown is a name that does not exist.
type Unknown struct {
	Start, End int // bytes of the code
	// Package is the import path; Name is empty if the package does not exist.
	Package, Name string
}

// maxUnknown limits the names reported for one piece of code.
const maxUnknown = 10

// Check returns the packages and selectors on packages that do not exist, in a Go file or a
// fragment of one, at most 10. known are packages besides the standard library, by path;
// other packages are not checked.
//
// Without an import, a name such as strings is treated as a package only if it
// is rarely the name of a variable and if all of its uses are selectors.
func Check(code string, known Index) []Unknown {
	f := read(code)
	var out []Unknown
	add := func(u Unknown) {
		if len(out) < maxUnknown {
			out = append(out, u)
		}
	}
	for _, i := range f.imports {
		if missing(i.path, known) {
			add(Unknown{i.start, i.end, i.path, ""})
		}
	}
	for _, s := range f.selectors {
		if f.variables[s.on] {
			continue
		}
		paths, judged := f.paths(s.on, known)
		if !judged {
			continue
		}
		exists := false
		for _, p := range paths {
			exists = exists || known[p][s.name] || standard()[p][s.name]
		}
		if !exists {
			add(Unknown{s.start, s.end, paths[0], s.name})
		}
	}
	return out
}

// missing reports whether a path looks like a standard library package that
// does not exist.
func missing(p string, known Index) bool {
	root, _, _ := strings.Cut(p, "/")
	if known[p] != nil || standard()[p] != nil || !roots()[root] || p == "unsafe" || p == "C" {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "internal" || part == "vendor" || part == "testdata" {
			return false
		}
	}
	return true
}

// file is the relevant content of a piece of code.
type file struct {
	imports   []imported
	selectors []selector
	// variables are names that occur without a following period, so that they are not
	// packages.
	variables map[string]bool
}

type imported struct {
	name, path string
	start, end int
}

type selector struct {
	on, name   string
	start, end int
}

// paths returns the packages that a name may refer to.
func (f *file) paths(name string, known Index) (paths []string, judged bool) {
	for _, i := range f.imports {
		if i.name != name {
			continue
		}
		if known[i.path] != nil || standard()[i.path] != nil {
			return []string{i.path}, true
		}
		return nil, false
	}
	if len(f.imports) > 0 {
		return nil, false // a variable of the file, or a missing import
	}
	for p := range known {
		if nameOf(p) == name {
			paths = append(paths, p)
		}
	}
	if telling[name] {
		paths = append(paths, byName()[name]...)
	}
	return paths, len(paths) > 0
}

// telling are package names that variables rarely have.
var telling = map[string]bool{
	"bufio": true, "bytes": true, "errors": true, "filepath": true, "fmt": true, "http": true, "io": true, "ioutil": true,
	"json": true,
	"maps": true, "math": true, "os": true, "reflect": true, "regexp": true, "runtime": true, "slices": true,
	"slog": true, "sort": true,
	"strconv": true, "strings": true, "sync": true, "atomic": true, "time": true, "unicode": true, "utf8": true,
	"httptest": true, "base64": true,
	"hex": true, "sha256": true, "md5": true, "csv": true, "xml": true, "binary": true, "ioutils": false, "exec": true,
	"bits": true, "cmp": true,
}

// read splits code into tokens. Invalid code is read as far as possible.
func read(code string) file {
	f := file{variables: map[string]bool{}}
	src := []byte(code)
	set := token.NewFileSet()
	where := set.AddFile("", set.Base(), len(src))
	var s scanner.Scanner
	s.Init(where, src, nil, 0)
	type piece struct {
		tok        token.Token
		lit        string
		start, end int
	}
	var before [4]piece // the previous tokens, newest first
	importing, grouped := false, false
	alias := ""
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		p := piece{tok, lit, where.Offset(pos), where.Offset(pos) + len(lit)}
		switch {
		case tok == token.IMPORT:
			importing, grouped, alias = true, false, ""
		case importing:
			switch {
			case tok == token.LPAREN:
				grouped = true
			case tok == token.IDENT || tok == token.PERIOD:
				alias = lit
			case tok == token.STRING:
				if path, err := strconv.Unquote(lit); err == nil {
					name := alias
					if name == "" {
						name = nameOf(path)
					}
					f.imports = append(f.imports, imported{name, path, p.start, p.end})
				}
				alias = ""
			case tok == token.RPAREN, tok == token.SEMICOLON && !grouped:
				importing = false
			}
		default:
			// on.Name, where no period precedes on
			if tok == token.IDENT && before[0].tok == token.PERIOD && before[1].tok == token.IDENT &&
				before[2].tok != token.PERIOD {
				if token.IsExported(lit) {
					f.selectors = append(f.selectors, selector{before[1].lit, lit, before[1].start, p.end})
				}
			} else if before[0].tok == token.IDENT && tok != token.PERIOD && before[1].tok != token.PERIOD &&
				before[1].tok != token.PACKAGE {
				f.variables[before[0].lit] = true
			}
		}
		before[3], before[2], before[1], before[0] = before[2], before[1], before[0], p
	}
	if before[0].tok == token.IDENT && before[1].tok != token.PERIOD {
		f.variables[before[0].lit] = true
	}
	return f
}
