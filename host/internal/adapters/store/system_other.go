//go:build !linux

package store

import (
	"io"
	"os"
	"syscall"
)

// allocate gives a file its size on the disk.
func allocate(f *os.File, size int64) error {
	_, err := io.CopyN(f, zeros{}, size)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// limitSilence does nothing: probes alone find a connection whose other end is gone.
func limitSilence(string, string, syscall.RawConn) error { return nil }
