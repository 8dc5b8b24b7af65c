package chat

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typing is a terminal on which a text is typed.
type typing struct{ io.Reader }

func (typing) Write(p []byte) (int, error) { return len(p), nil }
func (typing) Close() error                { return nil }
func (typing) Fd() uintptr                 { return 0 }
func (typing) Name() string                { return "typing" }

// Control characters of a paste are escaped, keys are left alone, wherever a read ends.
func TestPastesAreEscaped(t *testing.T) {
	typed := "a\x1b[A\x1b[200~A\x1b[31mB\x1b[0m \x1bC\x1b]0;t\x07D\x1b\x1b[20\tE\r\n\x7f日本\x1b[201~\x1b[B\x03\x1b[200~\x1b[201~"
	want := "a\x1b[A\x1b[200~" + `A\x1b[31mB\x1b[0m \x1bC\x1b]0;t\x07D\x1b\x1b[20` + "\tE\r\n" + `\x7f` + "日本\x1b[201~\x1b[B\x03\x1b[200~\x1b[201~"
	for name, in := range map[string]io.Reader{
		"at once": strings.NewReader(typed), "by byte": iotest.OneByteReader(strings.NewReader(typed)),
		"by half": iotest.HalfReader(strings.NewReader(typed)),
	} {
		for _, size := range []int{1, 7, 64, 4096} {
			p, got := &pastes{file: typing{in}}, bytes.Buffer{}
			for {
				to := make([]byte, size)
				n, err := p.Read(to)
				got.Write(to[:n])
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				if size == 4096 {
					assert.Empty(t, p.rest, "it would wait for the next key")
				}
			}
			assert.Equal(t, want, got.String(), "%s, %d", name, size)
			in = strings.NewReader(typed)
		}
	}
}
