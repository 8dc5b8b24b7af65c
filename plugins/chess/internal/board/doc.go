// Package board reads chess positions and refuses those that cannot be.
//
// The rules library accepts boards without a king, castling rights without a
// rook and en passant squares without a pawn, and then answers nonsense for
// them. Parse therefore checks a FEN text field by field before the library
// sees it, and names the field that is at fault.
//
// All functions are safe for concurrent use; positions are never changed after
// Parse has returned them.
package board
