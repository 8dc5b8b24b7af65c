package hungry

import "testing"

var kept [][]byte

func TestHungry(t *testing.T) {
	for range 64 {
		block := make([]byte, 64<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
}
