package conversation

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// callIDLength is the length of a made id: that of Mistral, which accepts no other one.
const callIDLength = 9

// CallID returns the id of a call and adds it to taken, the ids of the other calls of the
// conversation. It is the stated one, or a made one if that is empty or taken. A made id has nine
// lower-case letters and digits, which all providers accept; equal arguments give equal ids.
func CallID(stated, seed string, taken map[string]bool) string {
	id := stated
	for n := 0; id == "" || taken[id]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, seed))
		id = strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:callIDLength]
	}
	taken[id] = true
	return id
}
