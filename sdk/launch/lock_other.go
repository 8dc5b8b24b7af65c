//go:build !unix

package launch

import "os"

// abandoned is always false: without advisory locks an unused directory cannot
// be distinguished from one in use.
func abandoned(*os.File) bool { return false }
