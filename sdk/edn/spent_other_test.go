//go:build !unix

package edn_test

import "time"

var began = time.Now()

// spent is the time that has passed, where the time of the processor is not told.
func spent() time.Duration { return time.Since(began) }
