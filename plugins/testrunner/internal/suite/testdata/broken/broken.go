// Package broken does not compile.
package broken

// Number is no number.
func Number() int { return "one" }
