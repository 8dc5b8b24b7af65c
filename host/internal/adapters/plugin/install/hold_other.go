//go:build !unix

package install

// hold does nothing on systems without flock.
func hold(string) (release func(), ok bool) { return func() {}, true }
