package main

import (
	"bytes"
	"io"
	"os"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxUploads is the number of exports that a workspace can receive at the same time: a comparison
// needs two.
const maxUploads = 2

// uploads holds exports that arrive in parts, because they are larger than a request can be. Each
// is kept in a temporary file until it was imported or compared, is found to be damaged, or the
// workspace is closed. If there are maxUploads, the oldest one is dropped for a new one.
type uploads struct {
	mu  sync.Mutex
	all []*upload
}

// upload is one file. blob is the hash that its content must have.
type upload struct {
	blob string
	file *os.File // has no name, so it disappears with the process
	size int64    // bytes that were received
}

// add appends a part and returns the number of bytes received so far. A part that was already
// received is accepted again. A part at offset 0 with other bytes starts the file again, because
// the earlier bytes may have been wrong.
func (u *uploads) add(blob string, at int64, part []byte) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.find(blob)
	if f == nil {
		f = &upload{blob: blob}
	}
	if at > f.size {
		return 0, invalid(edn.Vector(edn.K("offset")), "the part begins at byte %d, expected at most %d", at, f.size)
	}
	if f.file == nil {
		if err := u.begin(f); err != nil {
			return 0, uploadError(blob, err)
		}
	}
	same := make([]byte, min(int64(len(part)), f.size-at))
	if _, err := f.file.ReadAt(same, at); err != nil {
		return 0, uploadError(blob, err)
	}
	if !bytes.Equal(same, part[:len(same)]) {
		if at > 0 {
			return 0, invalid(edn.Vector(edn.K("content/b64")),
				"the part differs from the bytes received earlier at byte %d and later", at).
				WithHint("send the file again, from byte 0")
		}
		f.size, same = 0, nil
	}
	rest := part[len(same):]
	if _, err := f.file.WriteAt(rest, f.size); err != nil {
		return 0, uploadError(blob, err)
	}
	f.size += int64(len(rest))
	return f.size, nil
}

// begin makes the file of an upload, in place of the oldest one.
func (u *uploads) begin(f *upload) (err error) {
	if f.file, err = os.CreateTemp("", "upload-*"); err != nil {
		return err
	}
	if err := os.Remove(f.file.Name()); err != nil {
		_ = f.file.Close()
		return err
	}
	if len(u.all) >= maxUploads {
		u.remove(0)
	}
	u.all = append(u.all, f)
	return nil
}

func uploadError(blob string, err error) error {
	return contract.Errorf("store/io", "the upload cannot be kept in %s: %w", os.TempDir(), err).WithOp("import", blob)
}

// read passes the bytes of a file that were received to a function. Parts that arrive
// meanwhile wait.
func (u *uploads) read(blob string, use func(io.Reader) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.find(blob); f != nil {
		return use(io.NewSectionReader(f.file, 0, f.size))
	}
	return contract.Errorf("import/invalid", "no part of the file was received").WithOp("import", blob).
		WithHint("send its parts to :workspace/import first, with :blob, :offset and :content/b64")
}

// drop deletes an upload.
func (u *uploads) drop(blob string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, f := range u.all {
		if f.blob == blob {
			u.remove(i)
			return
		}
	}
}

// pending reports whether there is an upload.
func (u *uploads) pending() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.all) > 0
}

// close deletes all uploads.
func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.all) > 0 {
		u.remove(0)
	}
}

func (u *uploads) remove(i int) {
	_ = u.all[i].file.Close() // nothing of it is needed
	u.all = append(u.all[:i:i], u.all[i+1:]...)
}

func (u *uploads) find(blob string) *upload {
	for _, f := range u.all {
		if f.blob == blob {
			return f
		}
	}
	return nil
}
