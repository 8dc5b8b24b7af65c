//go:build long

package proof

const long = true
