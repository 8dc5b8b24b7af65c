//go:build !unix

package proof

import "time"

var began = time.Now()

// Spent returns the elapsed time on systems without processor time.
func Spent() time.Duration { return time.Since(began) }
