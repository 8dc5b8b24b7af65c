package launch

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe is the read end of a pipe with its backlog.
type pipe struct {
	raw    syscall.RawConn
	closed error // set if the file was closed before the first read
	*backlog
}

func newPipe(f *os.File) *pipe {
	raw, err := f.SyscallConn()
	return &pipe{raw, err, newBacklog()}
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (n int, err error) {
	if p.closed != nil || len(b) == 0 {
		return 0, p.closed
	}
	p.asks()
	waited := p.raw.Read(func(fd uintptr) bool {
		for {
			n, err = p.take(func() (int, error) { return unix.Read(int(fd), b) })
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// written marks the bytes that are in the pipe now.
func (p *pipe) written() {
	if p.closed != nil {
		return
	}
	p.mark(func() (pending int) {
		// On an error the reader has closed the pipe: pending is 0.
		_ = p.raw.Control(func(fd uintptr) { pending, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		return pending
	})
}
