package patch

import (
	"fmt"
	"path"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Limits of a patch.
const (
	// MaxSize is the largest text of a patch in bytes.
	MaxSize = 8 << 20
	// MaxFiles is the maximum number of files that one patch may change.
	MaxFiles = 1000
	// maxFileSize bounds the files that are read and written.
	maxFileSize = 64 << 20
)

// Refusal is the reason why a patch is rejected.
type Refusal struct {
	File   string // as named in the patch, "" if no file is concerned
	Hunk   int    // from 1, 0 if no hunk is concerned
	Line   int    // of the patch text from 1, 0 if unknown
	Reason string
}

func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("apply patch: ")
	if r.File != "" {
		b.WriteString(r.File + ": ")
	}
	if r.Hunk > 0 {
		fmt.Fprintf(&b, "hunk %d: ", r.Hunk)
	}
	b.WriteString(r.Reason)
	return b.String()
}

// Patch is a well-formed diff that stays inside its tree.
type Patch struct {
	files []*gitdiff.File
}

// Parse parses a unified diff, by Git or another tool. strip is the number of
// leading directories to remove from names, as for patch -p.
func Parse(text string, strip int) (*Patch, *Refusal) {
	if len(text) > MaxSize {
		return nil, &Refusal{Reason: fmt.Sprintf("the patch is larger than %d bytes", MaxSize)}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n" // a file without a last line end is marked by "\ No newline"
	}
	clean, refusal := scan(text, strip)
	if refusal != nil {
		return nil, refusal
	}
	files, err := parse(clean)
	if err != nil {
		return nil, &Refusal{Reason: "the patch cannot be read: " + strings.TrimPrefix(err.Error(), "gitdiff: ")}
	}
	if len(files) == 0 {
		return nil, &Refusal{Reason: "the text names no file to change: a patch has lines like --- a/file and +++ b/file"}
	}
	if len(files) > MaxFiles {
		return nil, &Refusal{Reason: fmt.Sprintf("the patch changes more than %d files", MaxFiles)}
	}
	for _, f := range files {
		if r := check(f, strip); r != nil {
			return nil, r
		}
	}
	return &Patch{files: files}, nil
}

// parse calls the library and returns its panics as errors.
func parse(text string) (files []*gitdiff.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed text: %v", p)
		}
	}()
	files, _, err = gitdiff.Parse(strings.NewReader(text))
	return files, err
}

// check completes the names of one file in place and rejects unsupported changes.
func check(f *gitdiff.File, strip int) *Refusal {
	shown := f.NewName
	if f.IsDelete || shown == "" {
		shown = f.OldName
	}
	refuse := func(reason string) *Refusal { return &Refusal{File: shown, Reason: reason} }
	for _, name := range []*string{&f.OldName, &f.NewName} {
		if *name == "" || *name == devNull {
			continue
		}
		clean, reason := cleanName(*name, max(strip-1, 0))
		if reason != "" {
			return refuse(reason)
		}
		*name = clean
	}
	if !f.IsDelete && f.NewName != "" {
		shown = f.NewName
	}
	switch {
	case f.IsBinary || f.BinaryFragment != nil:
		return refuse("binary patches are not supported")
	case unsupportedMode(uint32(f.NewMode)) || f.NewMode == 0 && unsupportedMode(uint32(f.OldMode)):
		return refuse("only regular files can be patched, no links and submodules")
	case len(f.TextFragments) == 0 && !f.IsNew && !f.IsDelete && !f.IsRename && !f.IsCopy && f.NewMode == 0:
		return refuse("the patch changes nothing in this file")
	}
	return nil
}

func unsupportedMode(mode uint32) bool {
	const typeBits, regular = 0o170000, 0o100000
	return mode != 0 && mode&typeBits != regular
}

// cleanName removes the remaining leading directories from a name and validates
// it; the reason is empty if it is valid.
func cleanName(name string, strip int) (clean, reason string) {
	if path.IsAbs(name) {
		return "", "the path is absolute"
	}
	for range strip {
		_, rest, ok := strings.Cut(name, "/")
		if !ok || rest == "" {
			return "", tooFewDirectories(strip + 1)
		}
		name = strings.TrimLeft(rest, "/")
	}
	if strings.ContainsAny(name, "\x00\n") || name == "" {
		return "", "the path is not a file name"
	}
	for _, step := range strings.Split(name, "/") {
		switch step {
		case "..":
			return "", "the path leaves the tree"
		case ".git":
			return "", "the path is inside a Git directory"
		}
	}
	if name = path.Clean(name); name == "." {
		return "", "the path is not a file name"
	}
	return name, ""
}
