package edn

// plainRun returns the length of the longest prefix of s whose bytes stand for
// themselves in a string: no quote, backslash or control character. It looks at
// eight bytes at a time.
func plainRun(s string) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		del := w ^ ones*0x7f
		// A byte below n has its high bit in (w - ones*n) &^ w; bytes above the
		// lowest hit may be reported wrongly, which the loop below settles.
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
