package eval

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Suspensions at the same time may each reorder the nodes that they are given.
func TestSuspendGetsNodesOfItsOwn(t *testing.T) {
	var got []string
	u := undecided{nodes: []Undecided{{Node: "a"}, {Node: "b"}}, suspend: func(nodes []Undecided) {
		got = append(got, nodes[0].Node)
		slices.Reverse(nodes)
	}}
	for range 2 {
		u.begin()
		u.rest()
	}
	assert.Equal(t, []string{"a", "a"}, got)
}
