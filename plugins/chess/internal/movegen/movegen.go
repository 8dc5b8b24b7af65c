package movegen

import (
	"fmt"
	"slices"
	"strings"
)

// Position is a board with the side to move. Files and ranks count from 0; an
// empty square is 0, white pieces are capital letters.
type Position struct {
	board     [8][8]byte // by rank and file
	black     bool       // to move
	castling  string
	enPassant string
}

// Parse parses the first four fields of a FEN.
func Parse(fen string) (Position, error) {
	var p Position
	fields := strings.Fields(fen)
	if len(fields) < 4 {
		return p, fmt.Errorf("FEN %q has %d fields, want at least 4", fen, len(fields))
	}
	ranks := strings.Split(fields[0], "/")
	if len(ranks) != 8 {
		return p, fmt.Errorf("FEN %q has %d ranks, want 8", fen, len(ranks))
	}
	for i, rank := range ranks {
		file := 0
		for _, c := range []byte(rank) {
			if c >= '1' && c <= '8' {
				file += int(c - '0')
				continue
			}
			if file > 7 {
				return p, fmt.Errorf("rank %q of FEN %q has more than 8 squares", rank, fen)
			}
			p.board[7-i][file] = c
			file++
		}
	}
	p.black, p.castling, p.enPassant = fields[1] == "b", fields[2], fields[3]
	return p, nil
}

func isBlack(piece byte) bool { return piece >= 'a' }
func lower(piece byte) byte   { return piece | 0x20 }

func name(rank, file int) string { return string([]byte{byte('a' + file), byte('1' + rank)}) }

// at returns the piece on a square; ok is false outside the board.
func (p *Position) at(rank, file int) (piece byte, ok bool) {
	if rank < 0 || rank > 7 || file < 0 || file > 7 {
		return 0, false
	}
	return p.board[rank][file], true
}

var (
	straight = [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}
	diagonal = [][2]int{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}
	all      = slices.Concat(straight, diagonal)
	jumps    = [][2]int{{1, 2}, {2, 1}, {-1, 2}, {-2, 1}, {1, -2}, {2, -1}, {-1, -2}, {-2, -1}}
)

// steps returns the directions of a piece, and whether it slides.
func steps(piece byte) (directions [][2]int, slides bool) {
	switch lower(piece) {
	case 'r':
		return straight, true
	case 'b':
		return diagonal, true
	case 'q':
		return all, true
	case 'k':
		return all, false
	case 'n':
		return jumps, false
	}
	return nil, false
}

// attacked reports whether a side could capture on a square.
func (p *Position) attacked(rank, file int, byBlack bool) bool {
	for r := range 8 {
		for f := range 8 {
			piece := p.board[r][f]
			if piece == 0 || isBlack(piece) != byBlack {
				continue
			}
			if lower(piece) == 'p' {
				ahead := 1
				if byBlack {
					ahead = -1
				}
				if r+ahead == rank && (f+1 == file || f-1 == file) {
					return true
				}
				continue
			}
			directions, slides := steps(piece)
			for _, d := range directions {
				for n := 1; ; n++ {
					rr, ff := r+n*d[0], f+n*d[1]
					other, ok := p.at(rr, ff)
					if rr == rank && ff == file {
						return true
					}
					if !ok || other != 0 || !slides {
						break
					}
				}
			}
		}
	}
	return false
}

// check reports whether the king of a side is attacked.
func (p *Position) check(black bool) bool {
	king := byte('K')
	if black {
		king = 'k'
	}
	for r := range 8 {
		for f := range 8 {
			if p.board[r][f] == king {
				return p.attacked(r, f, !black)
			}
		}
	}
	return false
}

// Check reports whether the side to move is in check.
func (p Position) Check() bool { return p.check(p.black) }

// Moves returns the legal moves in UCI notation, sorted.
func (p Position) Moves() []string {
	var out []string
	try := func(move string) {
		if next := p.Play(move); !next.check(p.black) {
			out = append(out, move)
		}
	}
	for r := range 8 {
		for f := range 8 {
			piece := p.board[r][f]
			if piece == 0 || isBlack(piece) != p.black {
				continue
			}
			if lower(piece) == 'p' {
				p.pawn(r, f, try)
				continue
			}
			directions, slides := steps(piece)
			for _, d := range directions {
				for n := 1; ; n++ {
					other, ok := p.at(r+n*d[0], f+n*d[1])
					if !ok || other != 0 && isBlack(other) == p.black {
						break
					}
					try(name(r, f) + name(r+n*d[0], f+n*d[1]))
					if other != 0 || !slides {
						break
					}
				}
			}
		}
	}
	p.castle(try)
	slices.Sort(out)
	return out
}

func (p *Position) pawn(r, f int, try func(string)) {
	ahead, first, last := 1, 1, 7
	if p.black {
		ahead, first, last = -1, 6, 0
	}
	to := func(rank, file int) {
		move := name(r, f) + name(rank, file)
		if rank != last {
			try(move)
			return
		}
		for _, piece := range "bnqr" {
			try(move + string(piece))
		}
	}
	if other, ok := p.at(r+ahead, f); ok && other == 0 {
		to(r+ahead, f)
		if r == first && p.board[r+2*ahead][f] == 0 {
			to(r+2*ahead, f)
		}
	}
	for _, file := range []int{f - 1, f + 1} {
		other, ok := p.at(r+ahead, file)
		if !ok {
			continue
		}
		if other != 0 && isBlack(other) != p.black || other == 0 && name(r+ahead, file) == p.enPassant {
			to(r+ahead, file)
		}
	}
}

// castle tries both sides: king and rook in place, no piece between them, and
// the king neither in check nor passing an attacked square.
func (p *Position) castle(try func(string)) {
	rank, king, rook, rights := 0, byte('K'), byte('R'), "KQ"
	if p.black {
		rank, king, rook, rights = 7, 'k', 'r', "kq"
	}
	row := p.board[rank]
	if row[4] != king || p.attacked(rank, 4, !p.black) {
		return
	}
	if strings.Contains(p.castling, rights[:1]) && row[7] == rook && row[5] == 0 && row[6] == 0 &&
		!p.attacked(rank, 5, !p.black) {
		try(name(rank, 4) + name(rank, 6))
	}
	if strings.Contains(p.castling, rights[1:]) && row[0] == rook && row[1] == 0 && row[2] == 0 && row[3] == 0 &&
		!p.attacked(rank, 3, !p.black) {
		try(name(rank, 4) + name(rank, 2))
	}
}

// Play returns the position after a move of Moves.
func (p Position) Play(move string) Position {
	fromFile, fromRank := int(move[0]-'a'), int(move[1]-'1')
	toFile, toRank := int(move[2]-'a'), int(move[3]-'1')
	piece := p.board[fromRank][fromFile]
	p.board[fromRank][fromFile] = 0
	switch {
	case lower(piece) == 'p' && fromFile != toFile && p.board[toRank][toFile] == 0:
		p.board[fromRank][toFile] = 0 // en passant
	case lower(piece) == 'k' && toFile-fromFile == 2:
		p.board[fromRank][5], p.board[fromRank][7] = p.board[fromRank][7], 0
	case lower(piece) == 'k' && fromFile-toFile == 2:
		p.board[fromRank][3], p.board[fromRank][0] = p.board[fromRank][0], 0
	}
	p.enPassant = "-"
	if lower(piece) == 'p' && (toRank-fromRank == 2 || fromRank-toRank == 2) {
		p.enPassant = name((fromRank+toRank)/2, fromFile)
	}
	if len(move) == 5 {
		piece = move[4] - 0x20
		if p.black {
			piece = move[4]
		}
	}
	p.board[toRank][toFile] = piece
	for square, rights := range map[string]string{"e1": "KQ", "a1": "Q", "h1": "K", "e8": "kq", "a8": "q", "h8": "k"} {
		if strings.HasPrefix(move, square) || move[2:4] == square { // moved, or captured
			p.castling = strings.Map(func(c rune) rune {
				if strings.ContainsRune(rights, c) {
					return -1
				}
				return c
			}, p.castling)
		}
	}
	p.black = !p.black
	return p
}
