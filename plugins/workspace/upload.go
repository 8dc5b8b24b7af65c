package main

import (
	"bytes"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxUploads is the number of files of which a workspace keeps parts: a comparison
// needs two.
const maxUploads = 2

// uploads are exports that arrive in parts, because they are larger than a request can
// be. They are kept in memory until they were imported or compared, have proved wrong, or
// the workspace is closed; the oldest one makes room for another.
type uploads struct {
	mu  sync.Mutex
	all []*upload
}

// upload is one file, which is named by the hash that it shall have.
type upload struct {
	blob    string
	content []byte
}

// add appends a part and returns the number of bytes that are there. A part that is
// there already is accepted again. One at the beginning with other bytes begins the file
// anew: what was there can have been wrong.
func (u *uploads) add(blob string, at int, part []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var have []byte
	f := u.find(blob)
	if f != nil {
		have = f.content
	}
	end := at + len(part)
	switch {
	case at > len(have):
		return 0, invalid(edn.Vector(edn.K("offset")), "the part begins at byte %d, expected at most %d", at, len(have))
	case end > maxImported:
		return 0, contract.Errorf("limit/exceeded", "the file has more than %d bytes", maxImported).
			WithOp("import", blob).WithDetail("limit", edn.K("import")).WithDetail("max", edn.Int(maxImported))
	}
	same := have[at:min(end, len(have))]
	switch differs := !bytes.Equal(same, part[:len(same)]); {
	case differs && at > 0:
		return 0, invalid(edn.Vector(edn.K("content/b64")),
			"the part differs from the bytes received earlier at byte %d and later", at).
			WithHint("send the file again, from byte 0")
	case differs:
		f.content = slices.Clone(part) // readers may still have the other bytes
		return len(part), nil
	case f == nil:
		f = &upload{blob: blob}
		u.all = append(u.all[max(0, len(u.all)-maxUploads+1):], f)
	}
	f.content = append(f.content, part[len(same):]...)
	return len(f.content), nil
}

// content returns the bytes of a file that were received.
func (u *uploads) content(blob string) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.find(blob); f != nil {
		return f.content, nil
	}
	return nil, contract.Errorf("import/invalid", "no part of the file was received").WithOp("import", blob).
		WithHint("send its parts to :workspace/import first, with :blob, :offset and :content/b64")
}

// drop forgets a file.
func (u *uploads) drop(blob string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, f := range u.all {
		if f.blob == blob {
			u.all = append(u.all[:i:i], u.all[i+1:]...)
			return
		}
	}
}

func (u *uploads) find(blob string) *upload {
	for _, f := range u.all {
		if f.blob == blob {
			return f
		}
	}
	return nil
}
