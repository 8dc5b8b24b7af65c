package store

// MaxFrame is the largest text of a frame in bytes, unless a request says another one.
const MaxFrame = 1 << 20

// Limits of metadata.
const (
	maxMetaEntries = 32
	maxMetaBytes   = 8 << 10 // in canonical form
	maxMetaKey     = 64
)
