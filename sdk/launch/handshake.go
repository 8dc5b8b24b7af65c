package launch

import (
	"strconv"
	"strings"
)

// maxHandshake is the maximal length of a handshake line, in bytes. With a
// P-521 certificate it has about 1,000.
const maxHandshake = 8 << 10

// Handshake is the line in which a plugin states its protocol versions and the
// address on which it listens.
type Handshake struct {
	Core        int    // version of go-plugin's own protocol
	Version     int    // version of the application's protocol
	Network     string // "unix" or "tcp"
	Address     string
	Protocol    string // "grpc" or "netrpc"; "" from very old plugins
	Certificate string // base64, empty without mutual TLS
}

// ParseHandshake parses a line of the form
//
//	core|version|network|address|protocol|certificate|multiplex
//
// of which the first four parts are required. It rejects any other line.
func ParseHandshake(line string) (Handshake, bool) {
	if len(line) > maxHandshake {
		return Handshake{}, false
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 4 || len(parts) > 7 {
		return Handshake{}, false
	}
	core, err1 := strconv.Atoi(parts[0])
	version, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || core < 0 || version < 0 {
		return Handshake{}, false
	}
	h := Handshake{Core: core, Version: version, Network: parts[2], Address: parts[3]}
	if (h.Network != "unix" && h.Network != "tcp") || h.Address == "" {
		return Handshake{}, false
	}
	if len(parts) > 4 {
		h.Protocol = parts[4]
	}
	if len(parts) > 5 {
		h.Certificate = parts[5]
	}
	return h, true
}
