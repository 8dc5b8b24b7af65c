package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// CNV-002: each call has an id of its own, also if its model states none or one twice, and the same
// request gives the same ids again.
func TestCallID(t *testing.T) {
	ids := func(seed string, stated ...string) (all []string) {
		taken := map[string]bool{"earlier": true}
		for _, id := range stated {
			all = append(all, conversation.CallID(id, seed, taken))
		}
		return all
	}
	stated := []string{"a", "", "", "a", "b", "earlier"}
	got := ids("s", stated...)
	assert.Equal(t, []string{"a", "b"}, []string{got[0], got[4]}, "a stated id is kept")
	seen := map[string]bool{"earlier": true}
	for _, id := range got {
		assert.False(t, seen[id], "%q is unique", id)
		seen[id] = true
	}
	for _, i := range []int{1, 2, 3, 5} {
		assert.Regexp(t, `^[a-z0-9]{9}$`, got[i])
	}
	assert.Equal(t, got, ids("s", stated...))
	assert.NotEqual(t, got[1], ids("other", stated...)[1])
}
