package board

func (g *grid) king(white bool) int {
	want := byte('k')
	if white {
		want = 'K'
	}
	for sq, p := range g {
		if p == want {
			return sq
		}
	}
	return -1
}

var (
	straight = [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}
	diagonal = [][2]int{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}
	knight   = [][2]int{{1, 2}, {2, 1}, {-1, 2}, {-2, 1}, {1, -2}, {2, -1}, {-1, -2}, {-2, -1}}
)

// attacked reports whether a piece of the given side attacks the square.
func (g *grid) attacked(sq int, white bool) bool {
	piece := func(lower byte) byte {
		if white {
			return lower - 'a' + 'A'
		}
		return lower
	}
	at := func(file, rank int) byte {
		if file < 0 || file > 7 || rank < 0 || rank > 7 {
			return 0
		}
		return g[rank*8+file]
	}
	file, rank := sq%8, sq/8
	for _, d := range knight {
		if at(file+d[0], rank+d[1]) == piece('n') {
			return true
		}
	}
	behind := 1 // a black pawn attacks from the rank above
	if white {
		behind = -1
	}
	if at(file-1, rank+behind) == piece('p') || at(file+1, rank+behind) == piece('p') {
		return true
	}
	slides := func(dirs [][2]int, slider byte) bool {
		for _, d := range dirs {
			for n := 1; n < 8; n++ {
				f, r := file+n*d[0], rank+n*d[1]
				if f < 0 || f > 7 || r < 0 || r > 7 {
					break
				}
				p := g[r*8+f]
				if p == 0 {
					continue
				}
				if p == slider || p == piece('q') || (n == 1 && p == piece('k')) {
					return true
				}
				break
			}
		}
		return false
	}
	return slides(straight, piece('r')) || slides(diagonal, piece('b'))
}
