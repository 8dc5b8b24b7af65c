//go:build !linux

package launch

import "os"

// pipe is the read end of a pipe. What lies in it cannot be asked here, so its
// backlog is dealt with when it ends.
type pipe struct {
	*os.File
	*backlog
}

func newPipe(f *os.File) *pipe { return &pipe{f, newBacklog()} }

func (p *pipe) written() {}
