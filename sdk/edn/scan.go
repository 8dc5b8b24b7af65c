package edn

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainRun returns the length of the longest prefix of s without a quote,
// backslash or control character.
func plainRun(s string) int {
	i := plainBlocks(s)
	for ; i+8 <= len(s); i += 8 {
		w := word(s, i)
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		del := w ^ ones*0x7f
		// A byte below n has its high bit in (w - ones*n) &^ w. Bytes above the
		// lowest hit may be false positives; the loop below checks them.
		hit := (w - ones*0x20) &^ w
		hit |= (quote - ones) &^ quote
		hit |= (slash - ones) &^ slash
		hit |= (del - ones) &^ del
		if hit&highs != 0 {
			break
		}
	}
	for i < len(s) && !needsEscape(s[i]) {
		i++
	}
	return i
}

// word returns the eight bytes of s at offset i, the first one lowest.
func word(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
