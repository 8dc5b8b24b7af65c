//go:build race && unix

package main

import "time"

const refusalLimit = 5 * time.Millisecond
