package cli_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// terminal opens a pseudo terminal: output of the program to the second end is
// read from the first.
func terminal(t testing.TB) (mine, its *os.File) {
	t.Helper()
	mine, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mine.Close() })
	var name [128]byte
	for _, request := range []uintptr{syscall.TIOCPTYGRANT, syscall.TIOCPTYUNLK, syscall.TIOCPTYGNAME} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, mine.Fd(), request, uintptr(unsafe.Pointer(&name)))
		require.Zero(t, errno)
	}
	path, _, _ := bytes.Cut(name[:], []byte{0})
	its, err = os.OpenFile(string(path), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return mine, its
}
