package main

import "github.com/fermenthq/ferment/sdk"

func main() { sdk.Serve(newPlugin()) }
