package uci

import (
	"slices"
	"strconv"
	"strings"
)

// info is the part of an "info" line that an answer needs.
type info struct {
	depth int
	score int
	mate  int
	nodes int64
	pv    []string
}

// parseInfo parses a line of the main variation. Lines without a score, of a
// second variation or with a bound instead of a score are ignored.
func parseInfo(line string) (info, bool) {
	f := strings.Fields(line)
	if len(f) == 0 || f[0] != "info" {
		return info{}, false
	}
	var i info
	scored := false
	number := func(at int) int {
		if at >= len(f) {
			return 0
		}
		n, err := strconv.Atoi(f[at])
		if err != nil {
			return 0
		}
		return n
	}
	for at := 1; at < len(f); at++ {
		switch f[at] {
		case "string":
			return info{}, false
		case "multipv":
			if number(at+1) > 1 {
				return info{}, false
			}
		case "depth":
			i.depth = number(at + 1)
		case "nodes":
			i.nodes = int64(number(at + 1))
		case "lowerbound", "upperbound":
			return info{}, false
		case "score":
			if at+2 >= len(f) {
				return info{}, false
			}
			n := number(at + 2)
			switch f[at+1] {
			case "cp":
				i.score, scored = n, true
			case "mate":
				i.mate, scored = n, true
				i.score = mateScore - (2*n - 1)
				if n <= 0 {
					i.score = -mateScore - 2*n
				}
			}
		case "pv":
			i.pv = f[at+1:]
			return i, scored
		}
	}
	return i, scored
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
