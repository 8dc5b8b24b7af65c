package cli_test

import (
	"fmt"
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
	control := func(request uintptr, argument *uint32) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, mine.Fd(), request, uintptr(unsafe.Pointer(argument)))
		require.Zero(t, errno)
	}
	var unlocked, number uint32
	control(syscall.TIOCSPTLCK, &unlocked)
	control(syscall.TIOCGPTN, &number)
	its, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return mine, its
}
