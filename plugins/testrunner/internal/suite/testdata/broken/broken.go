// Package broken does not compile.
package broken

// Number has a wrong type.
func Number() int { return "one" }
