package board

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/corentings/chess/v2"
)

// MaxFEN bounds a FEN text, in bytes. The longest legal one is below 100.
const MaxFEN = 128

// FieldError names the invalid FEN field and the reason.
type FieldError struct {
	Field    string // "fen", "placement", "turn", "castling", "en-passant", "halfmove-clock", "move-number"
	Expected string
	Got      string
	Message  string
}

// Error returns one line: the field, the error, the value.
func (e *FieldError) Error() string {
	return fmt.Sprintf("fen: %s: %s (expected %s, got %q)", e.Field, e.Message, e.Expected, e.Got)
}

// reading guards the library's FEN reader, which shares one buffer between all
// callers.
var reading sync.Mutex

// Parse parses a FEN text strictly. The returned position has both kings, a
// reachable side to move, and only usable rights. The error is always a
// *FieldError.
func Parse(fen string) (*chess.Position, error) {
	if len(fen) > MaxFEN {
		return nil, &FieldError{
			Field:    "fen",
			Expected: fmt.Sprintf("at most %d bytes", MaxFEN),
			Got:      clip(fen),
			Message:  "text is too long",
		}
	}
	parts := strings.Split(strings.TrimSpace(fen), " ")
	if len(parts) != 6 {
		return nil, &FieldError{
			Field:    "fen",
			Expected: "6 fields parted by single blanks",
			Got:      clip(fen),
			Message:  fmt.Sprintf("%d fields", len(parts)),
		}
	}
	grid, err := readPlacement(parts[0])
	if err != nil {
		return nil, err
	}
	white := parts[1] == "w"
	if !white && parts[1] != "b" {
		return nil, &FieldError{Field: "turn", Expected: `"w" or "b"`, Got: clip(parts[1]), Message: "unknown side to move"}
	}
	for _, check := range []func() *FieldError{
		func() *FieldError { return checkMaterial(parts[0], grid) },
		func() *FieldError { return checkCastling(parts[2], grid) },
		func() *FieldError { return checkEnPassant(parts[3], grid, white) },
		func() *FieldError { return checkNumber("halfmove-clock", parts[4], 0, 999) },
		func() *FieldError { return checkNumber("move-number", parts[5], 1, 9999) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	pos := new(chess.Position)
	reading.Lock()
	uerr := pos.UnmarshalText([]byte(strings.Join(parts, " ")))
	reading.Unlock()
	if uerr != nil {
		return nil, &FieldError{
			Field:    "fen",
			Expected: "a position",
			Got:      clip(fen),
			Message:  strings.TrimPrefix(uerr.Error(), "chess: "),
		}
	}
	if grid.attacked(grid.king(!white), white) {
		return nil, &FieldError{
			Field:    "turn",
			Expected: "a side to move whose opponent is not in check",
			Got:      parts[1],
			Message:  "the side that has just moved left its king in check",
		}
	}
	return pos, nil
}

// clip shortens a quoted value.
func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// grid is a board as FEN letters, index 0 is a1, 63 is h8; 0 is empty.
type grid [64]byte

func readPlacement(text string) (*grid, error) {
	fault := func(format string, args ...any) error {
		return &FieldError{
			Field:    "placement",
			Expected: "8 ranks of 8 squares, pieces KQRBNPkqrbnp",
			Got:      clip(text),
			Message:  fmt.Sprintf(format, args...),
		}
	}
	ranks := strings.Split(text, "/")
	if len(ranks) != 8 {
		return nil, fault("%d ranks", len(ranks))
	}
	var g grid
	for i, rank := range ranks {
		file, digit := 0, false
		for _, c := range rank {
			switch {
			case c >= '1' && c <= '8':
				if digit {
					return nil, fault("rank %d has two counts of empty squares in a row", 8-i)
				}
				file, digit = file+int(c-'0'), true
			case strings.ContainsRune("KQRBNPkqrbnp", c):
				if file < 8 {
					g[(7-i)*8+file] = byte(c)
				}
				file, digit = file+1, false
			default:
				return nil, fault("rank %d has the unknown piece %q", 8-i, c)
			}
		}
		if file != 8 {
			return nil, fault("rank %d has %d squares", 8-i, file)
		}
	}
	return &g, nil
}

func checkMaterial(text string, g *grid) *FieldError {
	fault := func(expected, format string, args ...any) *FieldError {
		return &FieldError{Field: "placement", Expected: expected, Got: clip(text), Message: fmt.Sprintf(format, args...)}
	}
	count := map[byte]int{}
	for sq, p := range g {
		count[p]++
		if (p == 'P' || p == 'p') && (sq < 8 || sq >= 56) {
			return fault("pawns on ranks 2 to 7", "a pawn stands on %s", squareName(sq))
		}
	}
	for _, side := range []struct {
		name   string
		pieces string
	}{{"white", "KQRBNP"}, {"black", "kqrbnp"}} {
		if n := count[side.pieces[0]]; n != 1 {
			return fault("one king of each side", "%s has %d kings", side.name, n)
		}
		pawns := count[side.pieces[5]]
		if pawns > 8 {
			return fault("at most 8 pawns of each side", "%s has %d pawns", side.name, pawns)
		}
		promoted := 0
		for i, initial := range []int{0, 1, 2, 2, 2} {
			if i > 0 && count[side.pieces[i]] > initial {
				promoted += count[side.pieces[i]] - initial
			}
		}
		if promoted > 8-pawns {
			return fault("no more promoted pieces than missing pawns", "%s has %d promoted pieces and %d pawns", side.name,
				promoted, pawns)
		}
	}
	return nil
}

func checkCastling(text string, g *grid) *FieldError {
	fault := func(format string, args ...any) *FieldError {
		return &FieldError{
			Field:    "castling",
			Expected: `"-" or some of KQkq in this order`,
			Got:      clip(text),
			Message:  fmt.Sprintf(format, args...),
		}
	}
	if text == "-" {
		return nil
	}
	const order = "KQkq"
	home := map[rune][2]int{'K': {4, 7}, 'Q': {4, 0}, 'k': {60, 63}, 'q': {60, 56}}
	last := -1
	for _, c := range text {
		at := strings.IndexRune(order, c)
		if at < 0 {
			return fault("unknown right %q", c)
		}
		if at <= last {
			return fault("right %q is repeated or out of order", c)
		}
		last = at
		king, rook := byte('K'), byte('R')
		if c >= 'a' {
			king, rook = 'k', 'r'
		}
		if g[home[c][0]] != king || g[home[c][1]] != rook {
			return fault("right %q needs king and rook on their first squares", c)
		}
	}
	if last < 0 {
		return fault("empty field")
	}
	return nil
}

func checkEnPassant(text string, g *grid, white bool) *FieldError {
	fault := func(format string, args ...any) *FieldError {
		return &FieldError{
			Field:    "en-passant",
			Expected: `"-" or the square behind a pawn that has just moved two squares`,
			Got:      clip(text),
			Message:  fmt.Sprintf(format, args...),
		}
	}
	if text == "-" {
		return nil
	}
	if len(text) != 2 || text[0] < 'a' || text[0] > 'h' || text[1] < '1' || text[1] > '8' {
		return fault("not a square")
	}
	sq := int(text[0]-'a') + int(text[1]-'1')*8
	rank, pawn, step := 2, byte('P'), 8
	if white {
		rank, pawn, step = 5, 'p', -8
	}
	switch {
	case sq/8 != rank:
		return fault("the square is not on rank %d", rank+1)
	case g[sq] != 0 || g[sq-step] != 0:
		return fault("the pawn could not have passed here")
	case g[sq+step] != pawn:
		return fault("no pawn is in front of it")
	}
	return nil
}

func checkNumber(field, text string, low, high int) *FieldError {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high || strings.HasPrefix(text, "+") {
		return &FieldError{
			Field:    field,
			Expected: fmt.Sprintf("an integer from %d to %d", low, high),
			Got:      clip(text),
			Message:  "not such a number",
		}
	}
	return nil
}

func squareName(sq int) string { return string([]byte{byte('a' + sq%8), byte('1' + sq/8)}) }
