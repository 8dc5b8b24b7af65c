//go:build !linux

package launch

// pinSocket gives the path of a socket below dir to which no symbolic link leads.
func pinSocket(dir, rel string) (path string, release func(), err error) {
	path, err = checkSocket(dir, rel)
	return path, func() {}, err
}
