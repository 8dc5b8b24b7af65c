//go:build !unix

package install

// hold does nothing where there is no flock.
func hold(string) (release func(), ok bool) { return func() {}, true }
