package id

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strings"

	"lukechampine.com/blake3"
)

// Mode is the kind of a tree entry, as git numbers it.
type Mode uint32

// The modes.
const (
	Dir  Mode = 0o040000
	File Mode = 0o100644
	Exec Mode = 0o100755
	Link Mode = 0o120000
	Repo Mode = 0o160000 // a nested repository that is not descended
)

// String returns the mode as 6 octal digits.
func (m Mode) String() string { return fmt.Sprintf("%06o", uint32(m)) }

// Valid reports whether m is one of the modes.
func (m Mode) Valid() bool {
	switch m {
	case Dir, File, Exec, Link, Repo:
		return true
	}
	return false
}

// Kind names the kind of node: file, dir, link or repo.
func (m Mode) Kind() string {
	switch m {
	case Dir:
		return "dir"
	case Link:
		return "link"
	case Repo:
		return "repo"
	}
	return "file"
}

// text returns String without its allocation.
func (m Mode) text() string {
	switch m {
	case Dir:
		return "040000"
	case File:
		return "100644"
	case Exec:
		return "100755"
	case Link:
		return "120000"
	case Repo:
		return "160000"
	}
	return m.String()
}

// Entry is one entry of a directory.
type Entry struct {
	Mode    Mode
	Name    string
	Content ID
}

// Blob computes the content id of a file that is read in pieces. Reset begins
// a file.
type Blob struct {
	scheme Scheme
	small  []byte // the input as long as it fits one call of the hash
	large  hash.Hash
}

// NewBlob returns a Blob. Its buffer is reused for every file.
func (s Scheme) NewBlob() *Blob { return &Blob{scheme: s} }

// Reset begins a file. Git hashes the size before the bytes, so it must be the
// exact size for the schemes of git; the others ignore it.
func (b *Blob) Reset(size int64) {
	if b.large == nil {
		switch b.scheme.content {
		case BLAKE3:
			b.large, b.small = blake3.New(maxSum, nil), make([]byte, 0, smallBlob)
		case gitSHA1Alg:
			b.large = sha1.New()
		default:
			b.large = sha256.New()
		}
	}
	b.large.Reset()
	if b.scheme.Git() {
		_, _ = fmt.Fprintf(b.large, "blob %d\x00", size)
		return
	}
	e := begin(b.scheme.content, domainBlob)
	if b.scheme.content == BLAKE3 {
		b.small = append(b.small[:0], e.b...)
	} else {
		_, _ = b.large.Write(e.b)
	}
	encoders.Put(e)
}

// Write adds bytes of the file. It never fails.
func (b *Blob) Write(p []byte) (int, error) {
	if b.small == nil {
		return b.large.Write(p)
	}
	if len(b.small) > 0 && len(b.small)+len(p) <= smallBlob {
		b.small = append(b.small, p...)
		return len(p), nil
	}
	b.spill()
	return b.large.Write(p)
}

// spill moves the input to the hash of large files. An empty buffer means that
// it was moved already, because the header is never empty.
func (b *Blob) spill() {
	_, _ = b.large.Write(b.small)
	b.small = b.small[:0]
}

// ID returns the content id of what was written since Reset.
func (b *Blob) ID() ID {
	x := ID{kind: Content, alg: b.scheme.content}
	if len(b.small) > 0 {
		x.sum = sumOf(BLAKE3, b.small)
		return x
	}
	copy(x.sum[:], b.large.Sum(nil))
	return x
}

// Bytes returns the content id of a file or link with these bytes.
func (s Scheme) Bytes(content []byte) ID {
	if !s.Git() && len(content) <= smallBlob { // without the buffers of a Blob
		e := begin(s.content, domainBlob)
		e.b = append(e.b, content...)
		return e.sum(Content)
	}
	b := s.NewBlob()
	b.Reset(int64(len(content)))
	_, _ = b.Write(content)
	return b.ID()
}

// Commit returns the content id of a nested repository whose HEAD is the commit with the hash sum:
// in the schemes of git this hash, otherwise the id of its hexadecimal digits. The error is
// input/invalid if sum has another length than the hash of a git scheme.
func (s Scheme) Commit(sum []byte) (ID, error) {
	if s.Git() {
		return Of(Content, s.content, sum)
	}
	return s.Bytes(fmt.Appendf(nil, "%x", sum)), nil
}

// Directory returns the content id of a directory. It sorts the entries in
// place: by name, and in the schemes of git as git sorts them. Git records no
// directory without entries, so those are not part of the id there.
func (s Scheme) Directory(entries []Entry) ID {
	if s.Git() {
		return s.tree(entries)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	e := begin(s.content, domainDirectory)
	e.list(len(entries), func(i int) {
		e.text(entries[i].Mode.text())
		e.text(entries[i].Name)
		e.id(entries[i].Content)
	})
	return e.sum(Content)
}

// EmptyTree reports whether x is git's id of a directory without entries.
func (s Scheme) EmptyTree(x ID) bool { return s.Git() && x == s.tree(nil) }

func (s Scheme) tree(entries []Entry) ID {
	var empty ID
	if len(entries) > 0 {
		empty = s.tree(nil)
	}
	slices.SortFunc(entries, compareAsGit)
	body := make([]byte, 0, 64*len(entries))
	for _, e := range entries {
		if e.Mode == Dir && e.Content == empty {
			continue
		}
		body = append(body, strings.TrimPrefix(e.Mode.text(), "0")...)
		body = append(body, ' ')
		body = append(body, e.Name...)
		body = e.Content.AppendSum(append(body, 0))
	}
	return s.object("tree", body)
}

// object returns the id of a git object.
func (s Scheme) object(kind string, body []byte) ID {
	x := ID{kind: Content, alg: s.content}
	all := append(fmt.Appendf(make([]byte, 0, len(body)+32), "%s %d\x00", kind, len(body)), body...)
	if s.content == gitSHA1Alg {
		sum := sha1.Sum(all)
		copy(x.sum[:], sum[:])
	} else {
		x.sum = sha256.Sum256(all)
	}
	return x
}

// compareAsGit orders entries by name, directories as if their name ended in a
// slash.
func compareAsGit(a, b Entry) int {
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return bytes.Compare(a.tail(n), b.tail(n))
}

func (e Entry) tail(n int) []byte {
	if e.Mode == Dir {
		return append([]byte(e.Name[n:]), '/')
	}
	return []byte(e.Name[n:])
}
