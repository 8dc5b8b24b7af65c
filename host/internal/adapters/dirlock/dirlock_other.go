//go:build !unix

package dirlock

// Wait does nothing on systems without flock.
func Wait(string) (release func(), err error) { return func() {}, nil }

// Try always returns false on systems without flock.
func Try(string) (release func(), ok bool) { return nil, false }
