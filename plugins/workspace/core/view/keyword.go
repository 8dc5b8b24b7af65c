package view

import (
	"github.com/fermenthq/ferment/sdk/edn"
)

// Keyword is a keyword without its colon.
type Keyword string

// MarshalEDN writes the keyword.
func (k Keyword) MarshalEDN() ([]byte, error) { return edn.K(string(k)).Canonical(), nil }
