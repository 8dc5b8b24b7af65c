package stream

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// STR-001: a plugin is blocked only beyond 256 KiB of unread text, until the
// reader has caught up or stopped reading.
func TestUnreadTextIsBounded(t *testing.T) {
	const bound = 256 << 10
	for name, tc := range map[string]struct {
		unread int
		free   func(*Pace) // nil: it does not block
	}{
		"at the bound":               {bound, nil},
		"beyond it, one byte read":   {bound + 1, func(p *Pace) { p.Read(1) }},
		"beyond it, the reader goes": {bound + 1, (*Pace).Close},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPace()
				p.add(tc.unread)
				passed := make(chan struct{})
				go func() {
					p.wait(t.Context())
					close(passed)
				}()
				synctest.Wait()
				select {
				case <-passed:
					assert.Nil(t, tc.free, "it was not held back")
				default:
					if assert.NotNil(t, tc.free, "it was held back") {
						tc.free(p)
					} else {
						p.Close()
					}
				}
				<-passed
			})
		})
	}
}
