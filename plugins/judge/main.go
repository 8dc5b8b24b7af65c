package main

import (
	"crypto/rand"

	"github.com/fermenthq/ferment/sdk"
)

func main() { sdk.Serve(newPlugin(rand.Reader)) }
