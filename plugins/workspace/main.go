package main

import "github.com/fermenthq/ferment/sdk"

const version = "1.0.0"

func main() { sdk.Serve(newPlugin()) }
