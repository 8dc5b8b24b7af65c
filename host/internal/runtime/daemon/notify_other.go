//go:build !unix

package daemon

func monotonicMicros() int64 { return 0 }
