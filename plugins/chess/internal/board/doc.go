// Package board parses chess positions and rejects impossible ones.
//
// The rules library accepts boards without a king, castling rights without a
// rook and en passant squares without a pawn, and returns nonsense for them.
// Parse therefore validates a FEN text field by field before the library parses
// it, and names the invalid field.
//
// All functions are safe for concurrent use; positions are not changed after
// Parse has returned them.
package board
