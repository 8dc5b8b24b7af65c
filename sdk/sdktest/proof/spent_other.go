//go:build !unix

package proof

import "time"

var began = time.Now()

// Spent is the time that has passed, where the time of the processor is not told.
func Spent() time.Duration { return time.Since(began) }
