//go:build external

package host_test

import "testing"

// The section on serving as it stands, with curl and the port of the shipped configuration.
func TestReadmeServeWithCurl(t *testing.T) {
	serveAsShown(t, "dev", func(string) bool { return true })
}
