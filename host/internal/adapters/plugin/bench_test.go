//go:build linux

package plugin

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cost of hashing a program for the first time.
func BenchmarkHashProgram(b *testing.B) {
	self, err := os.Executable()
	require.NoError(b, err)
	info, err := os.Stat(self)
	require.NoError(b, err)
	b.SetBytes(info.Size())
	for b.Loop() {
		if _, err := newHasher().file(self); err != nil {
			b.Fatal(err)
		}
	}
}

// One call through the client, and the same call on the wire alone: the
// difference is the cost of supervision.
func BenchmarkInvoke(b *testing.B) {
	up := run(b, as("good")).ready()
	c := request(`{:text "hello"}`)
	b.Run("client", func(b *testing.B) {
		for b.Loop() {
			if _, err := up.client.Invoke(context.Background(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
	u, err := up.unit("p")
	require.NoError(b, err)
	w := u.all()[0].living.Load().wire
	b.Run("wire", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.Invoke(context.Background(), callContext(c, "x", false), c.Request, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
