package chat

import (
	"fmt"
	"io"
)

// Marks around pasted text (xterm, bracketed paste).
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// escaped is the size of an escaped control character in bytes.
const escaped = len(`\x1b`)

// file is an input that can be used as a terminal.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// pastes is a terminal that escapes control characters in pasted text, because bubbletea drops the
// sequences that they begin. It must not be read concurrently.
type pastes struct {
	file
	inside  bool
	matched int    // bytes of the next mark that were read
	rest    []byte // did not fit into the buffer of the reader
}

// Read implements io.Reader. It reads at most as many bytes as fit if each is escaped, because a
// caller that polls the terminal does not know of a rest.
func (p *pastes) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		raw := make([]byte, max(1, len(to)/escaped-len(pasteEnd)))
		n, err := p.file.Read(raw)
		for _, b := range raw[:n] {
			p.take(b)
		}
		if n == 0 || err != nil {
			return 0, err
		}
	}
	n := copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// take adds a byte of the terminal to rest. The end mark of a paste is kept until it is complete.
func (p *pastes) take(b byte) {
	mark := pasteStart
	if p.inside {
		mark = pasteEnd
	}
	if b != mark[p.matched] {
		if p.inside && p.matched > 0 {
			p.rest = append(append(p.rest, `\x1b`...), mark[1:p.matched]...)
		}
		p.matched = 0
	}
	switch {
	case b == mark[p.matched]:
		p.matched++
		if !p.inside {
			p.rest = append(p.rest, b)
		}
		if p.matched < len(mark) {
			return
		}
		if p.inside {
			p.rest = append(p.rest, pasteEnd...)
		}
		p.inside, p.matched = !p.inside, 0
	case p.inside && (b < ' ' && b != '\t' && b != '\n' && b != '\r' || b == 0x7f):
		p.rest = fmt.Appendf(p.rest, `\x%02x`, b)
	default:
		p.rest = append(p.rest, b)
	}
}
