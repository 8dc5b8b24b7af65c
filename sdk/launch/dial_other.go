//go:build !linux

package launch

// pinSocket returns the path of a socket below dir that contains no symbolic
// link.
func pinSocket(dir, rel string) (path string, release func(), err error) {
	path, err = checkSocket(dir, rel)
	return path, func() {}, err
}
