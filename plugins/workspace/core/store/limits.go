package store

// MaxFrame is the default maximum length of the text of a frame, in bytes.
const MaxFrame = 1 << 20

// Limits of metadata.
const (
	maxMetaEntries = 32
	maxMetaBytes   = 8 << 10 // in canonical form
	maxMetaKey     = 64
)
